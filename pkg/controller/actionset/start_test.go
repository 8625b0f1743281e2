// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// The status and the events report immediately what is wrong, and nothing is done.
func TestRejection(t *testing.T) {
	twice := withDefer(actionOf("same"), "KubeOps", "same")
	unknown := actionOf("first", "second")
	unknown.Phases[1].Func = "NoSuchFunc"
	later := actionOf("first", "second")
	later.Phases[1].Func = "CreateCSISnapshot"
	missing := actionOf("first", "second")
	missing.Phases[1].Args = rawArgs(`{"spec":"x"}`)
	null := actionOf("first")
	null.Phases[0].Args = rawArgs(`{"operation":null}`)
	bogus := actionOf("first", "second")
	bogus.Phases[1].Args = rawArgs(`{"operation":"create","bogus":1}`)
	badDefer := withDefer(actionOf("first"), "NoSuchFunc", "d")
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"ok": actionOf("first"), "twice": twice, "unknown": unknown, "later": later, "missing": missing, "null": null, "bogus": bogus, "badDefer": badDefer,
	})
	both := func(message string) []string {
		return []string{`event Warning "ActionSetFailed Action: go" "` + message + `"`, `event on Blueprint bp Warning "ActionSetFailed Action: go" "` + message + `"`}
	}
	launch := func(action, err string) (events []string) {
		events = []string{`event Normal "Started Action" "Executing action ` + action + `"`}
		for _, line := range both("Failed to launch Action s: " + err) {
			events = append(events, strings.ReplaceAll(line, "Action: go", "Action: "+action))
		}
		return events
	}
	spec := func(change func(*v1alpha1.ActionSpec)) func(*v1alpha1.ActionSet) {
		return func(set *v1alpha1.ActionSet) { change(&set.Spec.Actions[0]) }
	}
	for name, test := range map[string]struct {
		action string
		change func(*v1alpha1.ActionSet)
		err    string
		states string
		events []string
	}{
		"no spec": {
			change: func(set *v1alpha1.ActionSet) { set.Spec = nil },
			err:    "Spec must be non-nil: Validation Failed", states: "failed ended",
			events: []string{`event Warning "Error" "Spec must be non-nil: Validation Failed"`},
		},
		"an unknown kind of subject": {
			action: "ok", change: spec(func(a *v1alpha1.ActionSpec) { a.Object = v1alpha1.ObjectReference{Kind: "Thing"} }),
			err: "Not a known object Kind Thing. Action ok must specify Resource name and API version: Validation Failed", states: "failed ended",
			events: []string{`event Warning "Error" "Not a known object Kind Thing. Action ok must specify Resource name and API version: Validation Failed"`},
		},
		"no name of a blueprint": {
			action: "ok", change: spec(func(a *v1alpha1.ActionSpec) { a.Blueprint = "" }),
			err: "Blueprint is not specified for action", states: "failed ended",
			events: []string{`event Warning "Blueprint not specified" "Could not get blueprint: Blueprint is not specified for action"`},
		},
		"an unknown blueprint": {
			action: "ok", change: spec(func(a *v1alpha1.ActionSpec) { a.Blueprint = "none" }),
			err: `Failed to query blueprint: blueprints.cr.kanister.io "none" not found`, states: "failed ended",
			events: []string{`event Warning "Error" "Could not get blueprint: Failed to query blueprint: blueprints.cr.kanister.io \"none\" not found"`},
		},
		"an unknown action": {
			action: "go", err: "Action go for object kind Namespace not found in blueprint bp", states: "failed ended",
			events: both("Could not get initial action: Action go for object kind Namespace not found in blueprint bp"),
		},
		"an unknown function": {
			action: "unknown", err: "Requested function {NoSuchFunc} has not been registered", states: "failed unknown[ first=pending second=failed ] ended",
			events: launch("unknown", "Requested function {NoSuchFunc} has not been registered"),
		},
		"a function that is not there yet": {
			action: "later", err: "Requested function {CreateCSISnapshot} is known, but not supported yet", states: "failed later[ first=pending second=failed ] ended",
			events: launch("later", "Requested function {CreateCSISnapshot} is known, but not supported yet"),
		},
		"an unknown function of a deferPhase": {
			action: "badDefer", err: "Requested function {NoSuchFunc} has not been registered", states: "failed badDefer[ first=pending defer d=failed ] ended",
			events: launch("badDefer", "Requested function {NoSuchFunc} has not been registered"),
		},
		"a missing argument": {
			action: "missing", err: "Required args missing for function KubeOps: Required arg missing: operation", states: "failed missing[ first=pending second=failed ] ended",
			events: launch("missing", "Required args missing for function KubeOps: Required arg missing: operation"),
		},
		"an argument that is null": {
			action: "null", err: "Required args missing for function KubeOps: Required arg missing: operation", states: "failed null[ first=failed ] ended",
			events: launch("null", "Required args missing for function KubeOps: Required arg missing: operation"),
		},
		"an argument that the function does not know": {
			action: "bogus", err: "Checking supported args for function KubeOps.: argument bogus is not supported", states: "failed bogus[ first=pending second=failed ] ended",
			events: launch("bogus", "Checking supported args for function KubeOps.: argument bogus is not supported"),
		},
		"a version that is none": {
			action: "ok", change: spec(func(a *v1alpha1.ActionSpec) { a.PreferredVersion = "nonsense" }),
			err: "Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version", states: "failed ok[ first=failed ] ended",
			events: launch("ok", "Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version"),
		},
		"two phases of one name": {
			action: "twice", err: `two phases of action twice in blueprint bp are named "same": give each a name of its own`, states: "failed twice[ same=pending defer same=failed ] ended",
			events: launch("twice", `two phases of action twice in blueprint bp are named \"same\": give each a name of its own`),
		},
	} {
		set := newSet("ok")
		if test.action != "" {
			set = newSet(test.action)
		}
		if test.change != nil {
			test.change(set)
		}
		p := decide(observe(set, blueprint))
		status := statusOf(p)
		if status == nil {
			t.Errorf("%s: no status is written: %v", name, texts(p))
			continue
		}
		if status.Error.Message != test.err {
			t.Errorf("%s: the error is\n%s, want\n%s", name, status.Error.Message, test.err)
		}
		want := append([]string{"write status " + test.states}, test.events...)
		if diff := cmp.Diff(want, texts(p)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
		if failed == nil || failed.Reason != v1alpha1.ReasonInvalid || !strings.HasSuffix(failed.Message, test.err) {
			t.Errorf("%s: the condition Failed is %v", name, failed)
		}
		set.Status = stored(t, status)
		if again := decide(observe(set, blueprint)); len(texts(again)) > 0 {
			t.Errorf("%s: after that: %q, want nothing", name, texts(again))
		}
	}
}

func TestMissingSubjectRejects(t *testing.T) {
	o := answered(observe(newSet("a", "b"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one"), "b": actionOf("one")})))
	o.subjects[1].failure = `secrets "none" not found`
	want := []string{
		"write status failed a[ one=pending ] b[ one=failed ] ended",
		`event Normal "Started Action" "Executing action b"`,
		`event Warning "ActionSetFailed Action: b" "Failed to launch Action s: secrets \"none\" not found"`,
		`event on Blueprint bp Warning "ActionSetFailed Action: b" "Failed to launch Action s: secrets \"none\" not found"`,
	}
	if diff := cmp.Diff(want, texts(decide(o))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUnreadableInputDelaysStart(t *testing.T) {
	o := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")})))
	o.subjects[0].retry = true
	p := decide(o)
	if diff := cmp.Diff([]string{"write status pending"}, texts(p)); diff != "" || !p.retry {
		t.Errorf("to be tried again: %v; (-want +got)\n%s", p.retry, diff)
	}
	o.set.Status = statusOf(p)
	if p = decide(o); len(texts(p)) > 0 || !p.retry {
		t.Errorf("again: %q", texts(p))
	}
	o.subjects[0].retry = false
	if got := next(decide(o)) + "; then " + next(decide(withSnapshot(t, o))); got != "create the snapshot; then running a[ one=running ]; start phase 0.0" {
		t.Errorf("when it can be read: %s", got)
	}
}

func TestSnapshotContent(t *testing.T) {
	o := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one"), "KubeOps", "d")})))
	credentials := map[string]v1alpha1.ObjectReference{"secret": {Kind: "Secret", Name: "rendered"}}
	o.subjects[0] = foundSubject{
		subject: subject{Object: map[string]any{"kind": "Namespace"}},
		objects: map[int]map[string]v1alpha1.ObjectReference{0: credentials, phase.Deferred: credentials},
	}
	action := decide(o).Steps[1].(createSnapshot).snapshot.Actions[0]
	if action.Time != "2026-11-20T12:00:00.123456789Z" || action.Subject.Object["kind"] != "Namespace" {
		t.Errorf("the time is %s, the subject %v", action.Time, action.Subject.Object)
	}
	for _, p := range []v1alpha1.BlueprintPhase{action.Blueprint.Phases[0], *action.Blueprint.DeferPhase} {
		if diff := cmp.Diff(credentials, p.Objects); diff != "" {
			t.Errorf("phase %s: (-want +got)\n%s", p.Name, diff)
		}
	}
}

func TestSnapshotTooLarge(t *testing.T) {
	o := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")})))
	o.subjects[0].subject.Object = map[string]any{"data": strings.Repeat("x", 1<<20)}
	status := statusOf(decide(o))
	if status == nil || !strings.Contains(status.Error.Message, "a Secret holds 1048576") {
		t.Errorf("the status is %+v", status)
	}
}

func TestRunEvents(t *testing.T) {
	one := func(actions map[string]v1alpha1.BlueprintAction, names ...string) *world {
		return newWorld(t, newSet(names...), newBlueprint(actions))
	}
	fails := phase.Observation{State: phase.Failed, Message: `namespaces "no-such-ns" not found`}
	for name, test := range map[string]struct {
		world  *world
		ending map[phaseKey]phase.Observation
		events []string
		end    string
	}{
		"one phase": {
			world: one(map[string]v1alpha1.BlueprintAction{"go": actionOf("first")}, "go"),
			events: []string{
				"Started Action: Executing action go", "Started Phase: Executing phase first", "Ended Phase: Completed phase first",
				"Update Complete: Updated ActionSet 's' Status->complete",
			},
			end: `complete go[ first=complete ] ended "" 100`,
		},
		"no actions": {
			world:  one(nil),
			events: []string{"Update Complete: Updated ActionSet 's' Status->complete"},
			end:    `complete ended "" 100`,
		},
		"no phases": {
			world:  one(map[string]v1alpha1.BlueprintAction{"go": {}}, "go"),
			events: []string{"Started Action: Executing action go", "Update Complete: Updated ActionSet 's' Status->complete"},
			end:    `complete go[ ] ended "" 100`,
		},
		"the second of three phases fails": {
			world:  one(map[string]v1alpha1.BlueprintAction{"go": actionOf("first", "second", "third")}, "go"),
			ending: map[phaseKey]phase.Observation{{0, 1}: fails},
			events: []string{
				"Started Action: Executing action go", "Started Phase: Executing phase first", "Ended Phase: Completed phase first",
				"Started Phase: Executing phase second",
				`ActionSetFailed Action: go: Failed to execute phase: namespaces "no-such-ns" not found`,
			},
			end: `failed go[ first=complete second=failed third=pending ] ended "namespaces \"no-such-ns\" not found" 33`,
		},
		"the phases and the deferPhase fail": {
			world:  one(map[string]v1alpha1.BlueprintAction{"go": withDefer(actionOf("first"), "KubeOps", "cleanup")}, "go"),
			ending: map[phaseKey]phase.Observation{{0, 0}: fails, {0, phase.Deferred}: {State: phase.Failed, Message: "no-such-ns-b"}},
			events: []string{
				"Started Action: Executing action go", "Started Phase: Executing phase first",
				`ActionSetFailed Action: go: Failed to execute phase: namespaces "no-such-ns" not found`,
				"Started deferPhase: Executing deferPhase cleanup",
				"ActionSetFailed Action: go: Failed to execute defer phase: no-such-ns-b",
			},
			end: `failed go[ first=failed defer cleanup=failed ] ended "no-such-ns-b" 0`,
		},
		"a deferPhase after success": {
			world: one(map[string]v1alpha1.BlueprintAction{"go": withDefer(actionOf("first"), "KubeOps", "cleanup")}, "go"),
			events: []string{
				"Started Action: Executing action go", "Started Phase: Executing phase first", "Ended Phase: Completed phase first",
				"Started deferPhase: Executing deferPhase cleanup", "Ended deferPhase: Completed deferPhase cleanup",
				"Update Complete: Updated ActionSet 's' Status->complete",
			},
			end: `complete go[ first=complete defer cleanup=complete ] ended "" 100`,
		},
	} {
		if test.ending != nil {
			test.world.ending = test.ending
		}
		test.world.settle()
		if diff := cmp.Diff(test.events, test.world.events); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if end, _, _ := strings.Cut(test.world.end(), " ["); end != test.end {
			t.Errorf("%s: ends as %s, want %s", name, test.world.end(), test.end)
		}
	}
}

func TestMissingPhaseObjectFailsPhase(t *testing.T) {
	o := answered(observe(newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": withDefer(actionOf("first"), "KubeOps", "cleanup")})))
	o.prepared[phaseKey{0, 0}] = preparation{initFailure: `secrets "none" not found`}
	o = withSnapshot(t, o)
	p := decide(o)
	if got, want := next(p), "add the finalizer; failed go[ first=failed defer cleanup=running ]; start phase 0.defer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.Contains(strings.Join(texts(p), "\n"), `"Failed to init phase params: secrets \"none\" not found"`) {
		t.Errorf("no event reports it: %q", texts(p))
	}
	o.prepared[phaseKey{0, phase.Deferred}] = preparation{initFailure: `secrets "none" not found`}
	if got := next(decide(o)); !strings.Contains(got, "failed go[ first=failed defer cleanup=failed ] ended") {
		t.Errorf("a deferPhase whose objects are missing: %s, want the end", got)
	}
}

func TestArtifactsInStatus(t *testing.T) {
	o := answered(observe(newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": withArtifacts(actionOf("first"))})))
	o = withSnapshot(t, o)
	p := decide(o)
	if got := statusOf(p).Actions[0].Artifacts["art"].KopiaSnapshot; got != "{{ template }}" {
		t.Errorf("the artifact begins as %q", got)
	}
	o.set.Status = statusOf(p)
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Succeeded}
	if diff := cmp.Diff([]string{"? render the artifacts of action 0"}, texts(decide(o))); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	o.artifacts = map[int]renderedArtifacts{0: {lookupResult: lookupResult{failure: `Failed to render template: "nope" not found`}}}
	p = decide(o)
	if got := next(p); got != "failed go[ first=complete ] ended; delete the snapshot" {
		t.Errorf("a failure: %s", got)
	}
	if !strings.Contains(strings.Join(texts(p), "\n"), `"Failed to render output artifacts Failed to render template: \"nope\" not found"`) {
		t.Errorf("no event reports it: %q", texts(p))
	}
	// What cannot be read at the moment is waited for, and the end of the phase is not recorded before.
	o.artifacts = map[int]renderedArtifacts{0: {lookupResult: lookupResult{retry: true}}}
	if p = decide(o); next(p) != "try again" || len(p.Steps) > 0 {
		t.Errorf("artifacts that cannot be read: %s", next(p))
	}
}

func TestActionWithoutPhasesWaitsForArtifacts(t *testing.T) {
	w := newWorld(t, newSet("go", "b"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": withArtifacts(v1alpha1.BlueprintAction{}), "b": actionOf("one")}))
	w.failing = func(a controller.Ask) bool { _, artifacts := a.(renderArtifacts); return artifacts }
	if err := w.sync(); err != nil || len(w.calls) > 0 || w.set().Status.State != v1alpha1.StatePending {
		t.Fatalf("%s (%v), want it held as pending", describeStatus(w.set().Status), err)
	}
	w.failing = nil
	w.settle()
	if got := w.set().Status.Actions[0].Artifacts["art"].KopiaSnapshot; got != "rendered" || len(w.checkEnd()) > 0 {
		t.Errorf("in the end the artifact is %q: %v", got, w.faults)
	}
}

func TestMissingInputsWarn(t *testing.T) {
	action := actionOf("first")
	action.InputArtifactNames, action.SecretNames = []string{"given", "dump"}, []string{"creds"}
	set := newSet("go")
	set.Spec.Actions[0].Artifacts = map[string]v1alpha1.Artifact{"given": {}}
	p := decide(withSnapshot(t, answered(observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action})))))
	var warnings []string
	for _, line := range texts(p) {
		if strings.Contains(line, "MissingInput") {
			warnings = append(warnings, line)
		}
	}
	want := []string{
		`event Warning "MissingInput" "Action go of blueprint bp names artifacts that the ActionSet does not give: dump"`,
		`event Warning "MissingInput" "Action go of blueprint bp names Secrets that the ActionSet does not give: creds"`,
	}
	if diff := cmp.Diff(want, warnings); diff != "" || statusOf(p).State != v1alpha1.StateRunning {
		t.Errorf("%s; (-want +got)\n%s", describeStatus(statusOf(p)), diff)
	}
}

// A run needs one write before each effect, to record its intent, and one at the end.
func TestStatusWritesOfThreePhases(t *testing.T) {
	w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one", "two", "three")}))
	for p := range 3 {
		w.ending[phaseKey{0, p}] = succeeded(phaseKey{0, p})
	}
	if err := w.sync(); err != nil {
		t.Fatal(err)
	}
	if w.writes != 4 || !hasFinished(w.set().Status) {
		t.Errorf("%d status writes until %s, want 4 in one sync", w.writes, describeStatus(w.set().Status))
	}
	if len(w.history) != 1+4 {
		t.Errorf("%d writes of the ActionSet, want only those of its status", len(w.history)-1)
	}
}

// Nothing is decided twice: the plan of an applied plan is empty.
func TestAppliedPlanIsEmpty(t *testing.T) {
	for name := range scenarios {
		s := scenarios[name]
		w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": s.actions["a"]}))
		for _, key := range s.fails {
			w.ending[key] = phase.Observation{State: phase.Failed, Message: "it failed"}
		}
		for range 12 {
			if err := w.sync(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			before, writes := len(w.history), w.writes
			starts := len(w.events)
			if err := w.sync(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(w.history) != before || w.writes != writes || len(w.events) != starts {
				t.Errorf("%s: a second sync writes %d times and shows %q", name, len(w.history)-before, w.events[starts:])
			}
			for key := range w.calls {
				if _, ok := w.ending[key]; !ok {
					w.ending[key] = succeeded(key)
				}
			}
		}
		if !hasFinished(w.set().Status) {
			t.Errorf("%s: %s, want the end", name, describeStatus(w.set().Status))
		}
	}
}
