// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// A run with many phases, each of which takes a request of 4 s, leaves the only worker to another ActionSet after some seconds. All its phases have their turn,
// what they wait for stays in the status meanwhile, and a cancellation does not wait for the end of a round.
func TestRoundsLeaveWorkers(t *testing.T) {
	const many = 20
	for _, end := range []string{"complete", "cancelled", "deleted"} {
		t.Run(end, func(t *testing.T) {
			wait := waitFor("c")
			blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{wait}}})
			set := newSet(slices.Repeat([]string{"go"}, many)...)
			set.Finalizers = []string{Finalizer}
			inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
				a.blueprints.Create(renamed(threePhases(), "small"))
				configMaps := a.createConfigMap("c", "no")
				read := a.slowDown(http.MethodGet, "/configmaps/c", 4*time.Second)
				a.startStandby()(1)
				a.wait(30 * time.Second)
				small := newSet("go")
				small.Name, small.UID, small.Spec.Actions[0].Blueprint = "small", "", "small"
				a.create(small)
				a.wait(30 * time.Second)
				a.wantEnded("small")
				a.wait(5 * time.Minute)
				status := a.sets.Get("ns", "s").Status
				if running := len(runningPhases(status)); running != many {
					t.Errorf("%d phases run, want %d", running, many)
				}
				if lines := waitingShown(status); len(lines) != many {
					t.Errorf("the status shows what %d phases wait for, want %d", len(lines), many)
				}
				a.takeRequests()
				before := read.Load()
				a.wait(5 * time.Minute)
				// A worker polls for half of the time: more would be no pause, less more than one.
				if polls := read.Load() - before; polls < many || polls > 5*60/4*2/3 {
					t.Errorf("%d polls of 4 s in 5 minutes, want %d to 50", polls, many)
				}
				if requests := strings.Join(a.takeRequests(), "\n"); strings.Contains(requests, "update actionsets/status") {
					t.Error("the status is written although nothing has changed")
				}
				switch end {
				case "complete":
					configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
					a.wait(10 * time.Minute)
				case "cancelled":
					a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
					a.wait(10 * time.Second)
					if got := a.sets.Get("ns", "s").Status; !strings.Contains(fmt.Sprint(got.Conditions), v1alpha1.ReasonCancelRequested) {
						t.Errorf("10 s after it was cancelled: %s", describeStatus(got))
					}
					a.wait(5 * time.Minute)
				case "deleted":
					a.sets.Delete("ns", "s")
					a.wait(5 * time.Minute)
				}
				synctest.Wait()
				for _, set := range a.sets.List() {
					if !hasFinished(set.Status) {
						t.Errorf("%s has not ended: %s", set.Name, describeStatus(set.Status))
					}
				}
			})
		})
	}
}

func (a *apiServer) wantEnded(set string) {
	a.t.Helper()
	switch status := a.sets.Get("ns", set).Status; {
	case status == nil:
		a.t.Errorf("%s has no status", set)
	case !hasFinished(status):
		a.t.Errorf("%s has not ended: %s", set, describeStatus(status))
	}
}

// slowDown delays each request with a method and a path, in processes that start. It returns the number of these requests.
func (a *apiServer) slowDown(method, path string, by time.Duration) *atomic.Int32 {
	var read atomic.Int32
	before := a.wrap
	a.wrap = func(next http.RoundTripper) http.RoundTripper {
		if before != nil {
			next = before(next)
		}
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.Contains(r.URL.Path, path) {
				read.Add(1)
				time.Sleep(by)
			}
			return next.RoundTrip(r)
		})
	}
	return &read
}

func renamed(blueprint *v1alpha1.Blueprint, name string) *v1alpha1.Blueprint {
	blueprint.Name = name
	return blueprint
}

// Answers that take much memory are recorded, and forgotten, before there are many of them.
func TestRoundsBoundAnswers(t *testing.T) {
	const many, bytes = 40, 900_000
	large := `{{ $x := repeat 100000 "x" }}{{ range 9 }}{{ $x }}{{ end }}`
	action := v1alpha1.BlueprintAction{
		Phases: []v1alpha1.BlueprintPhase{waitFor("c")}, OutputArtifacts: map[string]v1alpha1.Artifact{"a": {KopiaSnapshot: large}},
	}
	inBubble(t, newSet(slices.Repeat([]string{"go"}, many)...), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
		a.createConfigMap("c", "true")
		a.startProcess()
		a.waitHour()
		writes := 0
		for _, request := range a.takeRequests() {
			if request == "update actionsets/status" {
				writes++
			}
		}
		if least := many * bytes / (maxAnswers + bytes); writes < least {
			t.Errorf("the status is written %d times, want %d at least", writes, least)
		}
		status := a.set().Status
		if !hasFinished(status) || !strings.Contains(status.Error.Message, "ArtifactsTooLarge") {
			t.Errorf("%s: %.300s", describeStatus(status), status.Error.Message)
		}
		first, last := status.Actions[0].Artifacts["a"].KopiaSnapshot, status.Actions[many-1].Artifacts["a"].KopiaSnapshot
		if len(first) != bytes || last != large {
			t.Errorf("the artifact of the first action has %d bytes, that of the last one is %.100s", len(first), last)
		}
	})
}

// The artifacts of actions without phases are rendered when the run starts, so they are bounded together.
func TestFirstArtifactsAreBounded(t *testing.T) {
	const many = 20
	large := v1alpha1.Artifact{KopiaSnapshot: `{{ $x := repeat 100000 "x" }}{{ range 9 }}{{ $x }}{{ end }}`}
	action := v1alpha1.BlueprintAction{OutputArtifacts: map[string]v1alpha1.Artifact{"a": large}}
	inBubble(t, newSet(slices.Repeat([]string{"go"}, many)...), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
		a.startProcess()
		status := a.set().Status
		if !hasFinished(status) || !strings.Contains(status.Error.Message, "the artifacts of all actions without phases take too many steps, or are too large") {
			t.Errorf("%s: %.300s", describeStatus(status), status.Error.Message)
		}
	})
}

// Phases that cannot be started, and a Pod that cannot be removed, hold up no other phase of a run that has rounds.
func TestRoundsWithFailingSteps(t *testing.T) {
	const many = 30
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"task": {Phases: []v1alpha1.BlueprintPhase{task("one")}},
		"go":   {Phases: []v1alpha1.BlueprintPhase{waitFor("c")}},
		"last": {Phases: []v1alpha1.BlueprintPhase{waitFor("last")}},
	})
	set := newSet(slices.Concat([]string{"task", "task", "task", "task"}, slices.Repeat([]string{"go"}, many), []string{"last"})...)
	inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
		a.createConfigMap("c", "no")
		configMaps := a.createConfigMap("last", "no")
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		created := 0
		a.refuse = func(request string) error {
			switch request {
			case "create pods":
				if created++; created > 1 {
					return outage(request)
				}
			case "delete pods":
				return outage(request)
			}
			return nil
		}
		a.slowDown(http.MethodGet, "/configmaps/", time.Second)
		a.slowDown(http.MethodPost, "/pods", 3*time.Second)
		a.slowDown(http.MethodDelete, "/pods", 3*time.Second)
		a.startStandby()(2)
		a.wait(2 * time.Minute)
		if made := len(pods.List()); made != 1 {
			t.Fatalf("%d Pods were made", made)
		}
		pods.Update("ns", pods.List()[0].Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		a.wait(2 * time.Minute)
		a.takeRequests()
		configMaps.Update("ns", "last", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
		a.wait(5 * time.Minute)
		if requests := len(a.takeRequests()); requests > 1000 {
			t.Errorf("%d requests in 5 minutes", requests)
		}
		states := describeStatus(a.set().Status)
		if !strings.HasPrefix(states, "failed task[ one=failed ] task[ one=running ] task[ one=running ] task[ one=running ] go[ long=running ]") || !strings.HasSuffix(states, "last[ long=complete ]") {
			t.Error(states)
		}
		a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
		a.answerAll()
		a.waitHour()
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) > 0 || len(pods.List()) > 0 {
			t.Errorf("in the end %s, %d Pods are left, and the finalizers are %q", describeStatus(set.Status), len(pods.List()), set.Finalizers)
		}
	})
}

// Phases that are started in several syncs, because each start takes a second, follow each other without a pause.
func TestRoundsOfStarts(t *testing.T) {
	const many = 30
	actions, names := map[string]v1alpha1.BlueprintAction{}, []string{}
	for i := range many {
		name := fmt.Sprint("c", i)
		names, actions[name] = append(names, name), v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{configMapPhase(name)}}
	}
	inBubble(t, newSet(names...), newBlueprint(actions), func(t *testing.T, a *apiServer) {
		a.slowDown(http.MethodPost, "/configmaps", time.Second)
		a.startStandby()(1)
		a.wait((many + 5) * time.Second)
		if set := a.set(); set.Status.State != v1alpha1.StateComplete {
			t.Errorf("%d s after its start: %s", many+5, describeStatus(set.Status))
		}
	})
}

// A run of which many phases have ended, and that takes 4 s to look for what one of them has left, leaves the only worker to another ActionSet.
func TestRoundsOfLeftovers(t *testing.T) {
	const many = 20
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"task": {Phases: []v1alpha1.BlueprintPhase{task("one")}},
		"wait": {Phases: []v1alpha1.BlueprintPhase{waitFor("c")}},
	})
	set := newSet(append(slices.Repeat([]string{"task"}, many), "wait")...)
	inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
		a.blueprints.Create(renamed(threePhases(), "small"))
		configMaps := a.createConfigMap("c", "no")
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		a.slowDown(http.MethodGet, "/pods/", 4*time.Second)
		a.startStandby()(1)
		a.wait(10 * time.Minute)
		for _, pod := range pods.List() {
			pods.Delete("ns", pod.Name)
		}
		a.wait(10 * time.Minute)
		if states := describeStatus(a.set().Status); strings.Count(states, "one=failed") != many {
			t.Fatal(states)
		}
		small := newSet("go")
		small.Name, small.UID, small.Spec.Actions[0].Blueprint = "small", "", "small"
		a.create(small)
		a.wait(30 * time.Second)
		a.wantEnded("small")
		configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
		a.waitHour()
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) > 0 {
			t.Errorf("in the end %s, and the finalizers are %q", describeStatus(set.Status), set.Finalizers)
		}
	})
}

// A cancelled run with Pods of which each takes ten seconds to delete starts no deferPhase before the Pod of its action is deleted, however long that takes.
func TestRoundsStopBeforeDefer(t *testing.T) {
	const many = 10
	actions, names := map[string]v1alpha1.BlueprintAction{}, []string{}
	for i := range many {
		name := fmt.Sprint("c", i)
		deferred := configMapPhase(name)
		names, actions[name] = append(names, name), v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{task("one")}, DeferPhase: &deferred}
	}
	inBubble(t, newSet(names...), newBlueprint(actions), func(t *testing.T, a *apiServer) {
		var pods []string // in the order of the actions
		deleted, deferred := map[string]bool{}, 0
		a.refuse = func(request string) error {
			switch request {
			case "create pods":
				pods = append(pods, a.object)
			case "delete pods":
				deleted[a.object] = true
			case "create configmaps":
				deferred++
				if i := slices.Index(names, a.object); !deleted[pods[i]] {
					t.Errorf("the deferPhase of action %d is started before its Pod is deleted", i)
				}
			}
			return nil
		}
		a.slowDown(http.MethodDelete, "/pods", 10*time.Second)
		a.startStandby()(2)
		a.wait(time.Minute)
		a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
		a.wait(10 * time.Minute)
		if set := a.set(); !hasFinished(set.Status) || deferred != many {
			t.Errorf("%d deferPhases were started: %s", deferred, describeStatus(set.Status))
		}
	})
}
