// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// about reports whether an interval is as long as wanted, or shorter by the jitter.
func about(got, want time.Duration) bool {
	return got < want+time.Second/2 && got > time.Duration(float64(want)*(1-jitter))-time.Second/2
}

// Expensive Waits that were polled together are polled at different times later, no later than at the longest interval.
func TestWaitPaceHasJitter(t *testing.T) {
	var p pace
	for _, cost := range []float64{1, 1000} {
		intervals := map[time.Duration]bool{}
		for range 10 {
			after := p.polled(phase.ID{}, cost, time.Second, phase.Waiting{})
			if intervals[after] = true; after > maxPause {
				t.Errorf("cost %g: polled again after %s", cost, after)
			}
		}
		if len(intervals) < 5 {
			t.Errorf("cost %g: the intervals are %v", cost, intervals)
		}
	}
	if after := p.polled(phase.ID{}, 0.001, time.Second, phase.Waiting{}); after != time.Second {
		t.Errorf("a cheap one is polled again after %s", after)
	}
}

// Waits that take more than their share of a CPU have longer intervals, the more of them there are. Those that take less do not.
func TestWaitPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		want := func(id string, cost float64, want time.Duration) {
			t.Helper()
			time.Sleep(2 * time.Second) // the share is computed again
			got := p.polled(phase.ID{Name: id}, cost, 2*time.Second, phase.Waiting{})
			if !about(got, want) {
				t.Errorf("%d Waits, cost %g: got %s, want %s", len(p.polls), cost, got, want)
			}
		}
		add := func(name string, n int, cost float64) {
			for i := range n {
				p.polled(phase.ID{Name: fmt.Sprint(name, i)}, cost, 2*time.Second, phase.Waiting{})
			}
		}
		want("a", 0.001, 2*time.Second)
		want("a", 1, 10*time.Second)
		want("a", 100, maxPause)
		want("a", 1, 10*time.Second)
		add("small", 400, 0.001) // together 0.04 of a CPU
		want("a", 1, 10*time.Second)
		add("large", 99, 1)
		want("a", 1, 95*time.Second) // the hundredth part of 0.21
		want("b", 0.02, 2*time.Second)
		for i := range 99 {
			p.end(phase.ID{Name: fmt.Sprint("large", i)})
		}
		want("a", 1, 10*time.Second)
		add("large", 2000, 1)
		want("a", 1, maxPause)
		want("b", 0.001, 2*time.Second)
		time.Sleep(3 * maxPause) // the others are gone, without an end
		want("a", 1, 10*time.Second)
		if n := len(p.polls); n != 1 {
			t.Errorf("%d Waits are remembered", n)
		}
	})
}

// Expensive Waits of one namespace do not delay those of another one that takes less than its share.
func TestWaitPaceOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		evaluated := func(namespace string, n int) (after time.Duration) {
			time.Sleep(2 * time.Second) // the shares are computed again
			for i := range n {
				after = p.polled(phase.ID{Namespace: namespace, Name: fmt.Sprint(i)}, 1, 2*time.Second, phase.Waiting{})
			}
			return after
		}
		evaluated("many", 200)
		evaluated("few", 2)
		for _, want := range []struct {
			namespace string
			waits     int
			after     time.Duration
		}{
			{"few", 2, 10 * time.Second},
			{"many", 200, 190 * time.Second}, // the 200th part of 0.21
			{"more", 200, maxPause},          // 381 s by its share
			{"many", 200, maxPause},
			{"few", 2, 10 * time.Second},
		} {
			if after := evaluated(want.namespace, want.waits); !about(after, want.after) {
				t.Errorf("%d Waits of namespace %s are evaluated again after %s, want %s", want.waits, want.namespace, after, want.after)
			}
		}
	})
}

// A poll before the next evaluation is due, because something else of the ActionSet has changed, gives the last result and reads nothing. A cancelled Wait is
// not counted any more.
func TestWaitIsNotEvaluatedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{}, configMap("c", map[string]string{"ready": "no"}))
		call := validated(t, w, waitFor("10s", map[string]any{"anyOf": []any{condition("c", "ready")}}))
		first, err := w.Poll(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(first.PollAfter - time.Millisecond)
		w.cluster.ClearActions()
		early, err := w.Poll(t.Context(), call)
		if err != nil || early.State != phase.Running || early.PollAfter != time.Millisecond || early.Waiting != first.Waiting || len(w.cluster.Actions()) > 0 {
			t.Errorf("early: got %+v (%v) with %d requests, want %+v", early, err, len(w.cluster.Actions()), first)
		}
		time.Sleep(time.Millisecond)
		if due, err := w.Poll(t.Context(), call); err != nil || due.PollAfter <= time.Millisecond || len(w.cluster.Actions()) != 1 {
			t.Errorf("when it is due: got %+v (%v) with %d requests", due, err, len(w.cluster.Actions()))
		}
		call.Cancelled = true
		if stopped, err := w.Poll(t.Context(), call); err != nil || stopped.State != phase.Stopped || len(w.pace.polls) > 0 {
			t.Errorf("cancelled: got %+v (%v), %d Waits are counted", stopped, err, len(w.pace.polls))
		}
	})
}

// Each look-up of a resource that is not served is a request. Many Waits for such resources are evaluated less often.
func TestUnservedResourcesPaceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		unserved := condition("c", "text")
		unserved["objectReference"].(map[string]any)["resource"] = "widgets"
		call := validated(t, w, waitFor("1h", map[string]any{"anyOf": []any{unserved}}))
		const waits = 2000
		var after time.Duration
		for i := range waits {
			call.ID.Action = i
			observed, err := w.Poll(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			after = observed.PollAfter
		}
		var discovery phase.Reads
		discovery.Requests.Store(readsOfDiscovery)
		seconds := discovery.CPU().Seconds()
		if want := waits * seconds / maxOfAll; after.Seconds() < 0.6*want || after.Seconds() > 1.5*want {
			t.Errorf("%d Waits are evaluated again after %s, want %.1f s", waits, after, want)
		}
	})
}

// A Wait that has ended is not counted any more.
func TestEndedWaitIsNotCounted(t *testing.T) {
	for _, ready := range []string{"true", "no"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWaitWorld(blueprint.WaitV2Language{}, configMap("first", map[string]string{"ready": "no"}), configMap("c", map[string]string{"ready": ready}))
			conditions := func(name string) map[string]any {
				return waitFor("10s", map[string]any{"anyOf": []any{condition(name, "ready")}})
			}
			call := validated(t, w, conditions("first"))
			if _, err := w.Poll(t.Context(), call); err != nil || len(w.pace.polls) != 1 {
				t.Fatalf("while it waits %d are counted (%v)", len(w.pace.polls), err)
			}
			call.Args = conditions("c")
			time.Sleep(2 * time.Second)
			if end, _ := untilEnd(t, w, call); (end.State == phase.Succeeded) != (ready == "true") || len(w.pace.polls) > 0 {
				t.Errorf("it has ended as %s, and %d are counted", end.State, len(w.pace.polls))
			}
		})
	}
}

// Requests, the memory of what they read, and conditions count, although they cost nothing of a Budget.
func TestReadingPacesWaits(t *testing.T) {
	for name, test := range map[string]struct {
		objects, elements, conditions int
		want                          time.Duration
	}{
		"requests":                       {100, 0, 100, 5 * time.Second},
		"conditions":                     {1, 0, 10_000, 10 * time.Second},
		"an object that is refused":      {1, 200_000, 1, 19 * time.Second},
		"one that is read, and rendered": {1, 20_000, 1, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conditions []any
				for i := range test.conditions {
					never := condition(fmt.Sprint(test.elements+i%test.objects), "text")
					never["condition"] = "false"
					conditions = append(conditions, never)
				}
				w := newWaitWorld(blueprint.WaitV2Language{})
				w.Client = denseObjects(t)
				observed, err := w.Poll(t.Context(), validated(t, w, waitFor("1h", map[string]any{"anyOf": conditions})))
				if err != nil || observed.PollAfter < test.want*8/10 || observed.PollAfter > test.want*3/2 {
					t.Errorf("the conditions are evaluated again after %s (%v), want %s", observed.PollAfter, err, test.want)
				}
			})
		})
	}
}

// A KubeOps that waits until an object is gone is polled as often as the objects and their number permit. A poll that is not due gives the last
// result, and a cancelled phase is polled.
func TestDeletionsArePaced(t *testing.T) {
	for name, test := range map[string]struct {
		phases, elements int
		want             time.Duration
	}{"one": {1, 0, deletionPoll}, "one of a large object": {1, 200_000, 19 * time.Second}, "many": {2000, 0, 7 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				object := target{APIVersion: "v1", Resource: "configmaps", Namespace: "db", Name: fmt.Sprint(test.elements), UID: "u"}
				k := &KubeOps{
					Client: denseObjectsWith(t, `{"uid":"u","deletionTimestamp":"2000-01-01T00:00:00Z"}`), Wake: func(phase.ID) {}, pace: &pace{},
					Mapper: NewMapper(serverWith(served("v1", "ConfigMap"))),
				}
				intent, err := phase.EncodeIntent(kubeOpsIntent{Operation: "delete", Objects: []target{object}})
				if err != nil {
					t.Fatal(err)
				}
				call := phase.Call{Intent: intent}
				poll := func() phase.Observation {
					observed, err := k.Poll(t.Context(), call)
					if err != nil {
						t.Fatal(err)
					}
					return observed
				}
				var last phase.Observation
				for i := range test.phases {
					call.ID.Action = i
					last = poll()
				}
				if last.State != phase.Running || last.PollAfter < test.want*8/10 || last.PollAfter > test.want*3/2 {
					t.Errorf("got %+v, want one that is polled again after %s", last, test.want)
				}
				time.Sleep(last.PollAfter - time.Millisecond)
				last.PollAfter = time.Millisecond
				if early := poll(); !reflect.DeepEqual(early, last) {
					t.Errorf("a poll that is not due: got %+v, want %+v", early, last)
				}
				if err := k.Cancel(t.Context(), call); err != nil {
					t.Fatal(err)
				}
				if cancelled := poll(); cancelled.State != phase.Stopped {
					t.Errorf("cancelled: got %+v", cancelled)
				}
			})
		})
	}
}

// A ScaleWorkload that reads a large workload, or large Pods, is polled less often. One that is about to be cancelled is polled, because it may be ready.
func TestScalingIsPaced(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		pods     int32
		workload string
		want     time.Duration
	}{"small": {1, "", readinessPoll}, "Pods": {5, "", 10 * time.Second}, "workload": {0, large, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScaleWorld(t, 1)
				call := w.call(0, replicas(1))
				call.StartTime = time.Now()
				w.change(func(set *appsv1.StatefulSet) {
					set.Status.ReadyReplicas, set.Annotations = min(test.pods, 1), map[string]string{"large": test.workload}
				})
				for i := range test.pods {
					pod := ownedPod(fmt.Sprint("large-", i), "pg-uid", corev1.PodRunning)
					if test.pods > 1 {
						pod.Status.Message = large
					}
					if err := w.cluster.Tracker().Add(pod); err != nil {
						t.Fatal(err)
					}
				}
				w.advance(&call)
				observed, err := w.Poll(t.Context(), call)
				if err != nil || observed.State != phase.Running || observed.PollAfter < test.want*8/10 || observed.PollAfter > test.want*3/2 {
					t.Errorf("got %+v (%v), want one that is polled again after %s", observed, err, test.want)
				}
				for i := range test.pods {
					if err := w.cluster.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "db", fmt.Sprint("large-", i)); err != nil {
						t.Fatal(err)
					}
				}
				w.change(func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 1 })
				if early, err := w.Poll(t.Context(), call); err != nil || early.State != phase.Running {
					t.Errorf("when the workload is ready, and the poll is not due: got %+v (%v)", early, err)
				}
				call.Cancelled = true
				if last, err := w.Poll(t.Context(), call); err != nil || last.State != phase.Succeeded {
					t.Errorf("a poll before it is cancelled: got %+v (%v)", last, err)
				}
				if len(w.pace.polls) > 0 {
					t.Errorf("at the end %d phases are counted", len(w.pace.polls))
				}
			})
		})
	}
}

// Waits that begin on an object that is known to be expensive are evaluated later, also if their timeout is short. One that another process has started is
// not, and when the object has become small, none is.
func TestStartsOnExpensiveObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitWorld(blueprint.WaitV2Language{})
		w.Client = denseObjects(t)
		start := func(index int, timeout, name string) (phase.Call, phase.Observation) {
			t.Helper()
			call := validated(t, w, waitFor(timeout, map[string]any{"anyOf": []any{condition(name, "text")}}))
			call.ID.Action = index
			got, err := w.Start(t.Context(), call)
			if err != nil || got.State != phase.Running {
				t.Fatalf("start: got %+v (%v)", got, err)
			}
			return call, got
		}
		if _, first := start(0, "1h", "200000"); first.Waiting == firstPoll {
			t.Errorf("the first one: got %+v", first)
		}
		long, got := start(1, "1h", "200000")
		if got.Waiting != firstPoll || got.PollAfter < 15*time.Second || got.PollAfter > 30*time.Second {
			t.Errorf("another one: got %+v", got)
		}
		short, late := start(2, "1ms", "200000")
		time.Sleep(time.Second)
		if got, err := w.Poll(t.Context(), short); err != nil || late.Waiting != firstPoll || got.Waiting != firstPoll || got.PollAfter < 14*time.Second {
			t.Errorf("at its timeout: got %+v, and then %+v (%v)", late, got, err)
		}
		if _, small := start(3, "1h", "1"); small.Waiting == firstPoll {
			t.Errorf("on a small object: got %+v", small)
		}
		continued := long
		continued.ID.Action = 4
		if got, err := w.Poll(t.Context(), continued); err != nil || got.Waiting == firstPoll {
			t.Errorf("one that is continued: got %+v (%v)", got, err)
		}
		time.Sleep(30 * time.Second)
		if got, err := w.Poll(t.Context(), long); err != nil || got.State != phase.Running || got.Waiting == firstPoll {
			t.Errorf("later: got %+v (%v)", got, err)
		}
		if got, err := w.Poll(t.Context(), short); err != nil || got.State != phase.Failed {
			t.Errorf("after its timeout: got %+v (%v)", got, err)
		}
		known := blueprint.ObjectReference{APIVersion: "v1", Resource: "configmaps", Namespace: "ns", Name: "c"}
		named := known
		named.Kind = "any"
		conditions := []item{{blueprint.Condition{ObjectReference: known}, "anyOf", 0}, {blueprint.Condition{ObjectReference: named}, "anyOf", 1}}
		for _, read := range []struct {
			cpu, want time.Duration
			err       error
		}{
			{expensiveRead, expensiveRead, errObjectsTooLarge},
			{0, expensiveRead, apierrors.NewInternalError(errObjectsTooLarge)},
			{0, 0, nil},
			{expensiveRead, expensiveRead, nil},
			{0, 0, apierrors.NewNotFound(schema.GroupResource{}, "c")},
		} {
			if w.pace.expensive.learn(named, read.cpu, read.err); w.pace.expensive.cost(conditions) != read.want {
				t.Errorf("after a read of %s (%v), another cost is known than %s", read.cpu, read.err, read.want)
			}
		}
	})
}
