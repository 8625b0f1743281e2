// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/fakeapi"
)

// referencesTo returns n references by different names, to objects with the names that the function returns.
func referencesTo(n int, name func(i int) string) map[string]v1alpha1.ObjectReference {
	to := map[string]v1alpha1.ObjectReference{}
	for i := range n {
		to[fmt.Sprint("n", i)] = v1alpha1.ObjectReference{Kind: "Secret", Name: name(i)}
	}
	return to
}

func same(int) string { return "same" }

func TestTooManyAreRejected(t *testing.T) {
	actions := func(n int, change func(i int, action *v1alpha1.ActionSpec)) *v1alpha1.ActionSet {
		set := newSet(slices.Repeat([]string{"go"}, n)...)
		for i := range set.Spec.Actions {
			change(i, &set.Spec.Actions[i])
		}
		return set
	}
	secrets := func(each int, name func(int) string) func(int, *v1alpha1.ActionSpec) {
		return func(i int, action *v1alpha1.ActionSpec) {
			action.Secrets = referencesTo(each, func(n int) string { return name(i*each + n) })
		}
	}
	different := func(i int) string { return fmt.Sprint("s", i) }
	none := func(int, *v1alpha1.ActionSpec) {}
	// inNamespace adds references to the Secrets of different, with their namespace.
	inNamespace := func(i int, action *v1alpha1.ActionSpec) {
		secrets(100, different)(i, action)
		for name, reference := range action.Secrets {
			reference.Namespace = "ns"
			action.Secrets[name] = reference
		}
	}
	for name, test := range map[string]struct {
		set     *v1alpha1.ActionSet
		objects map[string]v1alpha1.ObjectReference // of the phase
		want    string
	}{
		"actions":                {set: actions(1000, none)},
		"one action more":        {set: actions(1001, none), want: "spec.actions has 1001 actions, and may have 1000: use several ActionSets: Validation Failed"},
		"names of one Secret":    {set: actions(20, secrets(100, same))},
		"one name more":          {set: actions(2, secrets(101, same)), want: "spec.actions[0].secrets has 101 references, and may have 100: put what they hold into fewer objects: Validation Failed"},
		"different Secrets":      {set: actions(10, secrets(100, different))},
		"namespaces":             {set: actions(10, inNamespace), objects: referencesTo(100, different)},
		"one Secret more":        {set: actions(11, secrets(91, different)), want: "the actions and their phases name 1001 different Secrets and ConfigMaps, and those of an ActionSet may name 1000: use several ActionSets: Validation Failed"},
		"one more of a phase":    {set: actions(10, secrets(100, different)), objects: referencesTo(1, same), want: "the actions and their phases name 1001 different Secrets and ConfigMaps, and those of an ActionSet may name 1000: use several ActionSets"},
		"objects of a phase":     {set: actions(1, none), objects: referencesTo(100, same)},
		"one object more":        {set: actions(1, none), objects: referencesTo(101, same), want: "phase one of action go in blueprint bp has 101 objects, and may have 100: put what they hold into fewer objects"},
		"one name more of a map": {set: actions(1, func(_ int, a *v1alpha1.ActionSpec) { a.ConfigMaps = referencesTo(101, same) }), want: "spec.actions[0].configMaps has 101 references, and may have 100: put what they hold into fewer objects: Validation Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			action := actionOf("one")
			action.Phases[0].Objects = test.objects
			o := answered(observe(test.set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action})))
			for i := range o.subjects {
				o.subjects[i].objects = map[int]map[string]v1alpha1.ObjectReference{0: test.objects}
			}
			p := decide(o)
			if test.want == "" {
				if lines := texts(p); !slices.Contains(lines, "create the snapshot") {
					t.Errorf("got %.300q, want that the run starts", lines)
				}
				return
			}
			status := statusOf(p)
			if status == nil || status.Error.Message != test.want || status.CompletionTime == nil {
				t.Errorf("got %.300q, want the error %q", texts(p), test.want)
			}
		})
	}
}

// A run that has started goes on, though it has more actions than one may start with.
func TestStartedRunIsNotCounted(t *testing.T) {
	set := newSet(slices.Repeat([]string{"go"}, maxActions+1)...)
	o, r := observe(set), &snapshot{}
	for _, spec := range set.Spec.Actions {
		r.Actions = append(r.Actions, snapshotAction{Spec: spec, Blueprint: actionOf("one")})
	}
	status := initialStatus(o, r, &v1alpha1.RunSnapshot{})
	status.State, set.Status, o.snapshot = v1alpha1.StateRunning, &status, r
	if lines := texts(decide(o)); !slices.Contains(lines, "? prepare phase 1000.0") {
		t.Errorf("got %.300q, want that the last phase is prepared", lines)
	}
}

// allocated returns how much memory a function allocates, in bytes.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Many actions name one large Blueprint: it is not copied before the run is refused.
func TestSnapshotIsMeasuredBeforeCopies(t *testing.T) {
	large := actionOf("one")
	large.Phases[0].Args = rawArgs(`{"operation":"create","spec":"` + strings.Repeat("x", 1_000_000) + `"}`)
	set := newSet(slices.Repeat([]string{"go"}, 1000)...)
	var p plan
	bytes := allocated(func() { p = decide(observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": large}))) })
	status := statusOf(p)
	if status == nil || !strings.Contains(status.Error.Message, "the snapshot of the run is too large: ") {
		t.Fatalf("got %.300q", texts(p))
	}
	if bytes > 32<<20 {
		t.Errorf("%d MiB were allocated", bytes>>20)
	}
}

// What a decision about a run of many actions allocates grows with the number of actions, not with its square.
func TestThousandActionsAreDecided(t *testing.T) {
	set := newSet(slices.Repeat([]string{"go"}, maxActions)...)
	o := observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": actionOf("one", "two", "three", "four")}))
	o.subjects = make([]foundSubject, maxActions)
	o = withSnapshot(t, o)
	var p plan
	decided := func(what, want string) {
		t.Helper()
		if bytes := allocated(func() { p = decide(o) }); bytes > 128<<20 {
			t.Errorf("%s: %d MiB were allocated", what, bytes>>20)
		}
		lines, events := texts(p), 0
		for _, line := range lines {
			if strings.HasPrefix(line, "event ") {
				events++
			}
		}
		if !slices.Contains(lines, want) || events > maxEvents {
			t.Fatalf("%s: got %d events and %.300q, want %q", what, events, lines, want)
		}
	}
	decided("before the first phases", "? prepare phase 999.0")
	o.prepared = map[phaseKey]preparation{}
	for i := range maxActions {
		o.prepared[phaseKey{i, 0}] = preparation{intent: map[string]any{"name": "x"}}
	}
	decided("the first phases are prepared", "start phase 999.0")
	status := statusOf(p)
	if got, want := status.Progress.RunningPhase, strings.Repeat("one,", 10)+"and 990 more"; got != want {
		t.Errorf("runningPhase: got %.300q, want %q", got, want)
	}
	o.set, o.prepared = o.set.DeepCopy(), nil
	o.set.Status = status
	o.polled = map[phaseKey]phase.Observation{}
	for i := range maxActions {
		o.polled[phaseKey{i, 0}] = phase.Observation{State: phase.Succeeded, Output: map[string]any{"key": "value"}}
	}
	decided("the first phases have ended", "? prepare phase 999.1")
}

// What many actions name is read once for a decision, and again for the next one.
func TestReadsOnce(t *testing.T) {
	set := newSet("go", "go", "go")
	for i := range set.Spec.Actions {
		action := &set.Spec.Actions[i]
		action.Object = v1alpha1.ObjectReference{Kind: "Namespace", Name: "ns", Namespace: "ns"}
		action.Secrets, action.Options = referencesTo(50, same), map[string]string{"n": fmt.Sprint(i)}
	}
	phases := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{configMapPhase(`{{ index .Secrets.n7.Data "name" | toString }}-{{ .Options.n }}`)}}
	phases.Phases[0].Name, phases.Phases[0].Objects = "one", referencesTo(50, same)
	inBubble(t, set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": phases}), func(t *testing.T, a *apiServer) {
		a.secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "same"}, Data: map[string][]byte{"name": []byte("made")}})
		a.startProcess()
		a.waitHour()
		if n := a.count(configMapsResource); n != 3 {
			t.Errorf("got %d ConfigMaps and %s, want 3", n, a.states())
		}
		got := map[string]int{}
		for _, request := range a.takeRequests() {
			got[request]++
		}
		if got["get secrets"] != 2 || got["get namespaces"] != 1 {
			t.Errorf("got %d reads of the Secret and %d of the subject, want 2 and 1", got["get secrets"], got["get namespaces"])
		}
	})
}

// No subject is read after one that could not be read. The actions after it are not judged without theirs.
func TestActionWithoutSubjectIsNotJudged(t *testing.T) {
	task := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{{Func: "KubeTask", Name: "one", Args: rawArgs(`{"image":"none","command":["true"]}`)}}}
	o := answered(observe(newSet("go", "go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": task})))
	o.subjects[0].retry = true
	if p := decide(o); !slices.Equal(texts(p), []string{"write status pending"}) {
		t.Errorf("got %q, want that the start is tried again", texts(p))
	}
}

// The subjects of a run may have the size of a snapshot together. No more are read.
func TestSubjectsTooLargeTogether(t *testing.T) {
	set := newSet(slices.Repeat([]string{"go"}, 10)...)
	for i := range set.Spec.Actions {
		set.Spec.Actions[i].Object = v1alpha1.ObjectReference{APIVersion: "v1", Resource: "configmaps", Name: fmt.Sprint("large-", i), Namespace: "ns"}
	}
	inBubble(t, set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": actionOf("one")}), func(t *testing.T, a *apiServer) {
		for i := range set.Spec.Actions {
			fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource).Create(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("large-", i)}, Data: map[string]string{"key": strings.Repeat("x", 400_000)},
			})
		}
		a.startProcess()
		a.waitHour()
		if status := a.set().Status; status == nil || !strings.Contains(status.Error.Message, "the snapshot of the run is too large: ") {
			t.Errorf("got %s, want that the run is refused", a.states())
		}
		reads := 0
		for _, request := range a.takeRequests() {
			if request == "get configmaps" {
				reads++
			}
		}
		if reads != 3 {
			t.Errorf("%d subjects were read, want 3", reads)
		}
	})
}

// The size of what was read is bounded: the credentials of Profiles count, too.
func TestReadsAreBounded(t *testing.T) {
	var r reads
	for i := range 100 {
		key := readKey{"Profile", "ns", fmt.Sprint(i)}
		if _, err := readOnce(&r, key, func() (*blueprint.Profile, error) {
			return &blueprint.Profile{Credential: blueprint.Credential{KeyPair: &blueprint.KeyPair{Secret: strings.Repeat("x", 1<<20)}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(r.results); n > maxInputBytes>>20 {
			t.Fatalf("%d Profiles are kept after %d were read", n, i+1)
		}
	}
}

// The ActionSets of one namespace do not delay those of another one.
func TestNamespacesTakeTurns(t *testing.T) {
	inBubble(t, nil, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": actionOf()}), func(t *testing.T, a *apiServer) {
		for i := range 40 {
			set := newSet("go")
			set.Name, set.UID = fmt.Sprint("s", i), ""
			a.create(set)
		}
		other := newSet("go")
		other.Namespace, other.Name, other.UID = "zz", "other", ""
		a.sets.Create(other)
		var order []string
		a.refuse = func(request string) error {
			if request == "update actionsets/status" {
				order = append(order, a.object)
			}
			return nil
		}
		lead := a.startStandby() // all are queued before the first one is synced
		lead(1)
		a.waitHour()
		if at := slices.Index(order, "other"); at < 0 || at > 1 {
			t.Errorf("the ActionSet of the other namespace is number %d of %d", at, len(order))
		}
	})
}

// What a run reads counts once, also if several actions or phases name it. A Profile counts with its Secret.
func TestNumberOfReads(t *testing.T) {
	set, blueprint := newSet("go", "go"), threePhases()
	blueprint.Actions["go"].Phases[1].Objects = referencesTo(5, func(i int) string { return fmt.Sprint(i) })
	run := &snapshot{}
	for i := range set.Spec.Actions {
		action := &set.Spec.Actions[i]
		action.Object.Name = fmt.Sprint(i)
		action.Secrets, action.ConfigMaps = referencesTo(3, func(i int) string { return fmt.Sprint(i) }), referencesTo(2, same)
		action.Profile = &v1alpha1.ObjectReference{Name: "profile"}
		run.Actions = append(run.Actions, snapshotAction{Spec: *action, Blueprint: blueprint.Actions["go"]})
	}
	if got, want := startReads(set.Spec, "ns"), 2+3+1+2; got != want {
		t.Errorf("the start reads %d objects, want %d", got, want)
	}
	if got, want := referencesOfRun(run, "ns").reads(), 5+1+2; got != want {
		t.Errorf("the run reads %d objects, want %d", got, want)
	}
}
