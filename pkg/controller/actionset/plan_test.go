// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// statusWith has one action a, with a phase one, a phase two, and a deferPhase d, in these states. An initial capital is a phase
// that another process has started.
func statusWith(one, two, deferred string) *v1alpha1.ActionSetStatus {
	started := metav1.NewTime(noon.Truncate(time.Second))
	of := func(name, state string) v1alpha1.Phase {
		p := v1alpha1.Phase{Name: name, State: v1alpha1.State(strings.ToLower(state))}
		if p.State == v1alpha1.StateRunning {
			p.StartedBy, p.Intent, p.StartTime = "me", rawArgs(`{}`), &started
			if state == "Running" {
				p.StartedBy = "another"
			}
		}
		return p
	}
	status := &v1alpha1.ActionSetStatus{State: v1alpha1.StateRunning, StartTime: &started, ObservedGeneration: 1, Actions: []v1alpha1.ActionStatus{{
		Name: "a", Blueprint: "bp", Phases: []v1alpha1.Phase{of("one", one), of("two", two)}, DeferPhase: of("d", deferred),
	}}}
	for _, state := range []string{one, two, deferred} {
		if state == "failed" {
			status.State, status.Error.Message = v1alpha1.StateFailed, "it failed"
		}
	}
	return status
}

// inRun is an ActionSet with a snapshot and the given status; its phases call the function.
func inRun(t *testing.T, function string, status *v1alpha1.ActionSetStatus) observed {
	t.Helper()
	o := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(of(function, []string{"one", "two"}), function, "d")})))
	r, refused := checkActions(o)
	if refused != nil {
		t.Fatal(refused.message)
	}
	o.snapshot, o.set.Status = r, status
	// What every write brings up to date is so already.
	p := newPlanner(o, r, *status)
	if status.State == v1alpha1.StateFailed {
		p.setFailure(v1alpha1.ReasonPhaseFailed, status.Error.Message)
	}
	p.summarize()
	o.set.Status = &p.status
	o.set.Finalizers = []string{Finalizer}
	return o
}

// next describes a plan in short: the states that it writes, and its other steps except events.
func next(p plan) string {
	var said []string
	for _, a := range p.Asks {
		said = append(said, "? "+a.String())
	}
	for _, s := range p.Steps {
		switch s := s.(type) {
		case recordEvent:
		case writeStatus:
			said = append(said, describeStatus(&s.status))
		default:
			said = append(said, s.String())
		}
	}
	if p.retry {
		said = append(said, "try again")
	}
	return strings.Join(said, "; ")
}

// Every status that a process can leave behind when it ends, with every state of the phase that ran.
func TestDecideRunning(t *testing.T) {
	const (
		lost   = string(phase.Lost)
		idle   = string(phase.Idle)
		wins   = string(phase.Succeeded)
		fails  = string(phase.Failed)
		runs   = string(phase.Running)
		hidden = string(phase.Unknown)
	)
	for _, test := range []struct {
		one, two, deferred string
		found              string // of the phase that runs
		want               string
	}{
		{"pending", "pending", "pending", "", "running a[ one=running two=pending defer d=pending ]; start phase 0.0"},

		{"running", "pending", "pending", idle, "start phase 0.0"},
		{"running", "pending", "pending", runs, ""},
		{"running", "pending", "pending", hidden, "try again"},
		{"running", "pending", "pending", wins, "running a[ one=complete two=running defer d=pending ]; start phase 0.1; clean up phase 0.0"},
		{"running", "pending", "pending", fails, "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0"},
		{"running", "pending", "pending", lost, "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0"},

		// To do what another process has recorded is preceded by a write.
		{"Running", "pending", "pending", idle, "running a[ one=running two=pending defer d=pending ]; start phase 0.0"},
		{"Running", "pending", "pending", runs, ""},
		{"Running", "pending", "pending", wins, "running a[ one=complete two=running defer d=pending ]; start phase 0.1; clean up phase 0.0"},

		{"complete", "pending", "pending", "", "running a[ one=complete two=running defer d=pending ]; start phase 0.1"},
		{"complete", "running", "pending", idle, "start phase 0.1"},
		{"complete", "running", "pending", wins, "running a[ one=complete two=complete defer d=running ]; start phase 0.defer; clean up phase 0.1"},
		{"complete", "running", "pending", fails, "failed a[ one=complete two=failed defer d=running ]; start phase 0.defer; clean up phase 0.1"},

		{"complete", "complete", "pending", "", "running a[ one=complete two=complete defer d=running ]; start phase 0.defer"},
		{"complete", "complete", "running", idle, "start phase 0.defer"},
		{"complete", "complete", "running", runs, ""},
		{"complete", "complete", "running", wins, "complete a[ one=complete two=complete defer d=complete ] ended; clean up phase 0.defer; delete the snapshot; remove the finalizer"},
		{"complete", "complete", "running", fails, "failed a[ one=complete two=complete defer d=failed ] ended; clean up phase 0.defer; delete the snapshot; remove the finalizer"},
		{"complete", "complete", "complete", "", "complete a[ one=complete two=complete defer d=complete ] ended; delete the snapshot; remove the finalizer"},

		{"failed", "pending", "pending", "", "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer"},
		{"complete", "failed", "pending", "", "failed a[ one=complete two=failed defer d=running ]; start phase 0.defer"},
		{"failed", "pending", "running", wins, "failed a[ one=failed two=pending defer d=complete ] ended; clean up phase 0.defer; delete the snapshot; remove the finalizer"},
		{"failed", "pending", "complete", "", "failed a[ one=failed two=pending defer d=complete ] ended; delete the snapshot; remove the finalizer"},
		{"complete", "failed", "failed", "", "failed a[ one=complete two=failed defer d=failed ] ended; delete the snapshot; remove the finalizer"},
	} {
		name := fmt.Sprintf("%s, %s, defer %s: %s", test.one, test.two, test.deferred, test.found)
		o := inRun(t, "KubeTask", statusWith(test.one, test.two, test.deferred))
		for _, key := range runningPhases(o.set.Status) {
			o.polled[key] = phase.Observation{State: phase.State(test.found), Message: "why"}
		}
		if got := next(decide(o)); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, test.want)
		}
	}
}

func TestStreamOfOtherProcessIsLost(t *testing.T) {
	o := inRun(t, "KubeExec", statusWith("Running", "pending", "pending"))
	o.polled = nil // the phase is not polled
	p := decide(o)
	if got, want := next(p), "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	status := statusOf(p)
	if !strings.HasPrefix(status.Error.Message, "ControllerRestarted: ") {
		t.Errorf("the error is %q", status.Error.Message)
	}
	if progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing); progressing.Reason != v1alpha1.ReasonControllerRestarted {
		t.Errorf("the reason is %s", progressing.Reason)
	}
	o = inRun(t, "KubeExec", statusWith("running", "pending", "pending"))
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Running}
	if got := next(decide(o)); got != "" {
		t.Errorf("the process that holds the stream does %q, want to wait", got)
	}
}

// Several processes may have made Pods, and only the recorded one is released.
func TestReadyPhaseStartsWhenRecorded(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Ready, Intent: map[string]any{"pod": "uid-1"}}
	p := decide(o)
	if got, want := next(p), "running a[ one=running two=pending defer d=pending ]; start phase 0.0"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if intent := string(statusOf(p).Actions[0].Phases[0].Intent.Raw); intent != `{"pod":"uid-1"}` {
		t.Errorf("the intent is %s", intent)
	}
	o.set.Spec.Cancel = true
	if got := next(decide(o)); !strings.HasPrefix(got, "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0") {
		t.Errorf("when it is cancelled: %s, want it removed", got)
	}
}

// A cancel is recorded, then what runs is stopped, then each deferPhase runs.
func TestCancel(t *testing.T) {
	for name, want := range map[string]func(*v1alpha1.ActionSet){
		v1alpha1.ReasonCancelRequested: func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true },
		v1alpha1.ReasonDeleted:         func(set *v1alpha1.ActionSet) { set.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
		want(o.set)
		o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Running}
		p := decide(o)
		if got, want := next(p), "failed a[ one=running two=pending defer d=pending ]; cancel phase 0.0"; got != want {
			t.Fatalf("%s: at first %s, want %s", name, got, want)
		}
		o.set.Status = statusOf(p)
		if cancelled := meta.FindStatusCondition(o.set.Status.Conditions, v1alpha1.ConditionCancelled); cancelled == nil || cancelled.Reason != name {
			t.Errorf("%s: the condition is %v", name, cancelled)
		}

		o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Stopped}
		p = decide(o)
		if got, want := next(p), "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0"; got != want {
			t.Fatalf("%s: then %s, want %s", name, got, want)
		}
		o.set.Status = statusOf(p)

		o.polled[phaseKey{0, phase.Deferred}] = phase.Observation{State: phase.Succeeded}
		p = decide(o)
		const ended = "failed a[ one=failed two=pending defer d=complete ] ended; clean up phase 0.defer; delete the snapshot; remove the finalizer"
		if got := next(p); got != ended {
			t.Fatalf("%s: in the end %s, want %s", name, got, ended)
		}
		status := statusOf(p)
		if failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed); failed == nil || failed.Reason != name {
			t.Errorf("%s: the condition Failed is %v", name, failed)
		}
		if !strings.HasPrefix(status.Error.Message, "Cancelled: ") {
			t.Errorf("%s: the error is %q", name, status.Error.Message)
		}
	}
}

func TestStopLimit(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	o.set.Spec.Cancel = true
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Running}
	o.set.Status = statusOf(decide(o))
	o.now = o.now.Add(stopLimit - 2*time.Second)
	if p := decide(o); next(p) != "cancel phase 0.0" || p.RequeueAfter <= 0 || p.RequeueAfter > 2*time.Second {
		t.Fatalf("%s after %v, want to cancel it again, and to look when its time is over", next(p), p.RequeueAfter)
	}
	o.now = o.now.Add(2 * time.Second)
	if p := decide(o); next(p) != "cancel phase 0.0" || p.RequeueAfter != time.Millisecond {
		t.Fatalf("%s after %v, want to try to cancel it once before it is given up", next(p), p.RequeueAfter)
	}
	o.stopTried = sets.New(phaseKey{0, 0})
	p := decide(o)
	if got, want := next(p), "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer; clean up phase 0.0"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	o.set.Status = statusOf(p)
	o.polled[phaseKey{0, phase.Deferred}] = phase.Observation{State: phase.Running}
	o.now = o.now.Add(deferLimit - 2*time.Second)
	if got := next(decide(o)); got != "" {
		t.Fatalf("within its time the deferPhase is disturbed: %s", got)
	}
	o.now = o.now.Add(2 * time.Second)
	if got := next(decide(o)); got != "cancel phase 0.defer" {
		t.Fatalf("%s, want to cancel the deferPhase", got)
	}
	o.stopTried.Insert(phaseKey{0, phase.Deferred})
	o.now = o.now.Add(stopLimit)
	if got := next(decide(o)); !strings.Contains(got, "defer d=failed ] ended") {
		t.Errorf("%s, want the end", got)
	}
}

func TestDeferPhaseHasNoDeadline(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("complete", "complete", "running"))
	o.polled[phaseKey{0, phase.Deferred}] = phase.Observation{State: phase.Running}
	o.now = o.now.Add(100 * time.Hour)
	if p := decide(o); next(p) != "" || p.RequeueAfter != 0 {
		t.Errorf("%s after %v, want to wait", next(p), p.RequeueAfter)
	}
}

func TestDecideTerminating(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	o.namespaceTerminating = true
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Running}
	if got := next(decide(o)); got != "" {
		t.Errorf("before it is deleted: %s, want nothing", got)
	}
	o.set.DeletionTimestamp = &metav1.Time{Time: noon}
	if got, want := next(decide(o)), "cancel phase 0.0; remove the finalizer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDeleteBeforeStart(t *testing.T) {
	o := observe(newSet("a"))
	o.set.DeletionTimestamp, o.set.Finalizers = &metav1.Time{Time: noon}, []string{Finalizer, "of/others"}
	if got := next(decide(o)); got != "remove the finalizer" {
		t.Errorf("%s, want the finalizer removed", got)
	}
}

func TestCancelBeforeStart(t *testing.T) {
	set := newSet("a")
	set.Spec.Cancel = true
	p := decide(observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one"), "KubeOps", "d")})))
	if got := next(p); got != "failed ended" {
		t.Errorf("%s, want the end", got)
	}
	if !meta.IsStatusConditionTrue(statusOf(p).Conditions, v1alpha1.ConditionCancelled) {
		t.Error("the condition Cancelled is not True")
	}
}

func TestSnapshotLostFailsRun(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("complete", "running", "pending"))
	o.snapshot, o.leftovers = nil, []phaseKey{{0, 1}}
	p := decide(o)
	if got, want := next(p), "failed a[ one=complete two=failed defer d=pending ] ended; clean up phase 0.1; remove the finalizer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if message := statusOf(p).Error.Message; !strings.Contains(message, "Secret actionset-run-uid-s") {
		t.Errorf("the error is %q", message)
	}
}

// What was found of a phase that has not ended may belong to a running one: the status may be stale.
func TestCleanUpOfEndedPhases(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("complete", "running", "pending"))
	o.polled[phaseKey{0, 1}] = phase.Observation{State: phase.Running}
	o.leftovers = []phaseKey{{0, 0}, {0, 1}, {0, phase.Deferred}, {7, 7}}
	if got := next(decide(o)); got != "clean up phase 0.0" {
		t.Errorf("%s, want only phase 0.0 cleaned up", got)
	}
}

func TestProgressInterval(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	see := func(percent int) (string, time.Duration) {
		o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Running, Progress: phase.Progress{Percent: percent, SizeUploaded: int64(percent)}}
		p := decide(o)
		if written := statusOf(p); written != nil {
			o.set.Status = written
			return fmt.Sprint(written.Progress.PercentCompleted, " ", written.Progress.SizeUploadedB), p.RequeueAfter
		}
		return "", p.RequeueAfter
	}
	if got, _ := see(20); got != "10 20" {
		t.Errorf("at first %q is written, want the mean of the phases: 10, and 20 bytes", got)
	}
	if got, after := see(40); got != "" || after <= 0 || after > progressInterval {
		t.Errorf("%q is written immediately, with a requeue after %v; want nothing yet", got, after)
	}
	o.now = o.now.Add(progressInterval)
	if got, _ := see(40); got != "20 40" {
		t.Errorf("after a while %q is written, want 20 40", got)
	}
	if got, after := see(40); got != "" || after != 0 {
		t.Errorf("without any progress %q is written, to look again after %v", got, after)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	o.snapshot.Actions[0].Subject.Object = map[string]any{"spec": map[string]any{"replicas": int64(3000000), "ratio": 0.5}}
	secret, err := newSnapshotSecret(o.set, o.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	read, err := readSnapshot(o.set, secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.snapshot, read); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(secret.OwnerReferences) > 0 || secret.Immutable == nil || !*secret.Immutable {
		t.Error("the Secret of a run with a finalizer is owned, or can be changed")
	}
	plain := &snapshot{Actions: []snapshotAction{{Blueprint: actionOf("one")}}}
	if owned, err := newSnapshotSecret(o.set, plain); err != nil || !metav1.IsControlledBy(owned, o.set) {
		t.Errorf("the Secret of a run without a finalizer is not owned: %v", err)
	}
	another := o.set.DeepCopy()
	another.UID = "another"
	if _, err := readSnapshot(another, secret); err == nil {
		t.Error("the run of another ActionSet is taken")
	}
}

// The operator may be upgraded in the middle of a run.
func TestSnapshotOfEarlierVersion(t *testing.T) {
	const earlier = `{"actions":[{"spec":{"name":"a","object":{"apiVersion":"","group":"","resource":"","kind":"StatefulSet","name":"db"},` +
		`"blueprint":"bp","configMaps":null,"secrets":null,"profile":null,"options":{"o":"1"},"preferredVersion":"","podLabels":null,"podAnnotations":null},` +
		`"blueprint":{"phases":[{"func":"KubeOps","name":"one","args":{"operation":"create"}}],"deferPhase":{"func":"KubeTask","name":"d"}},` +
		`"time":"2026-11-20T12:00:00Z","subject":{"statefulSet":{"Name":"db","Namespace":"ns","Pods":["db-0"],"Containers":[["c"]],` +
		`"PersistentVolumeClaims":{"db-0":{"data":"/data"}}},"object":{"spec":{"replicas":1}}}}]}`
	set := newSet("a")
	secret, err := newSnapshotSecret(set, &snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data[snapshotKey] = []byte(earlier)
	read, err := readSnapshot(set, secret)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newSnapshotSecret(set, read)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(earlier, string(again.Data[snapshotKey])); diff != "" {
		t.Errorf("the encoding of the snapshot has changed: runs are lost by an upgrade (-earlier +now)\n%s", diff)
	}
	if secret.Name != "actionset-run-uid-s" {
		t.Errorf("the Secret has the name %s: a run of an earlier version is not found", secret.Name)
	}
}
