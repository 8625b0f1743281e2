// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// planCase is one row of a table of decisions at noon.
type planCase struct {
	observed observed
	want     []string // of describe; nothing for an empty plan
}

func testPlans(t *testing.T, cases map[string]planCase) {
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.observed.container == nil {
				tc.observed.container = newContainer()
			}
			if tc.observed.now.IsZero() {
				tc.observed.now = noon
			}
			before := tc.observed
			before.container, before.pod = tc.observed.container.DeepCopy(), tc.observed.pod.DeepCopy()
			want := tc.want
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, describe(decide(tc.observed))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.observed, cmp.AllowUnexported(observed{}, podMemory{}, contest{}, controller.RewriteBackoff{})); diff != "" {
				t.Errorf("deciding changed what was observed (-before +after):\n%s", diff)
			}
		})
	}
}

const (
	createFirst  = "create the Pod of start 1"
	createSecond = "create the Pod of start 2"
	startedFirst = `event Normal Started "Created Pod x-immortalpod, start 1"`
	startedNext  = `event Normal Started "Created Pod x-immortalpod, start 2"`
	reserveFirst = "status: start 1, seen 0, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating"
	reserveNext  = "status: start 2, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating"
	readsPod     = "read the live Pod"
)

func TestPlanWhereThereIsNoPod(t *testing.T) {
	gone := podMemory{seen: 1, gone: 1}
	testPlans(t, map[string]planCase{
		"a new container is started: counted first, then created": {
			observed: observed{},
			want:     []string{reserveFirst, createFirst, startedFirst},
		},
		"a Pod that was seen to go is started again, counted": {
			observed: observed{container: newContainer(withStatus(running(1))), memory: gone},
			want:     []string{reserveNext, createSecond, startedNext},
		},
		"a Pod that is not in the cache is looked for before another start is counted": {
			observed: observed{container: newContainer(withStatus(running(1)))},
			want:     []string{readsPod},
		},
		"a Pod that the API server does not have either is started again": {
			observed: observed{container: newContainer(withStatus(running(1))), live: true},
			want:     []string{reserveNext, createSecond, startedNext},
		},
		"the end of an earlier Pod proves nothing of this one": {
			observed: observed{container: newContainer(withStatus(running(2))), memory: podMemory{seen: 2, gone: 1}},
			want:     []string{readsPod},
		},
		"a start that is counted and not done is done under its number": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved)))},
			want:     []string{createFirst, startedFirst},
		},
		"a start whose Pod only this process has seen is not done twice": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), memory: podMemory{seen: 1}},
			want:     []string{readsPod},
		},
		"a start whose Pod only this process has seen, and seen to go, is followed by another": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), memory: gone},
			want:     []string{reserveNext, createSecond, startedNext},
		},
		"a start that was counted before a conflict is done under its number, and the status says so": {
			observed: observed{container: newContainer(withStatus(inConflict(1, reserved))), live: true},
			want: []string{
				"status: start 1, seen 0, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, Conflict=False Resolved",
				createFirst, startedFirst},
		},
		"a start that was counted before a suspension is done under its number, and the status says so": {
			observed: observed{container: newContainer(withStatus(v1alpha1.ImmortalContainerStatus{
				StartTimes: 1, ObservedGeneration: 1, Conditions: suspendedIdle(1).Conditions}))},
			want: []string{reserveFirst, createFirst, startedFirst},
		},
		"a container that is being deleted gets no Pod": {
			observed: observed{container: newContainer(func(c *v1alpha1.ImmortalContainer) { c.DeletionTimestamp = timeAt(noon) })},
		},
		"a status that was lost is counted on from what this process has seen": {
			observed: observed{memory: podMemory{seen: 7, gone: 7}},
			want: []string{
				"status: start 8, seen 7, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
				"create the Pod of start 8", `event Normal Started "Created Pod x-immortalpod, start 8"`},
		},
	})
}

func TestPlanWhereThePodMayNotBeStartedYet(t *testing.T) {
	waiting := newContainer(withStatus(backingOff(1, 1, after(10))))
	gone := podMemory{seen: 1, gone: 1}
	testPlans(t, map[string]planCase{
		"a container that backs off is left alone until its time": {
			observed: observed{container: waiting, memory: gone, now: after(3)},
			want:     []string{"again after 7s"},
		},
		"it is left alone to the last moment": {
			observed: observed{container: waiting, memory: gone, now: after(10).Add(-time.Nanosecond)},
			want:     []string{"again after 1ns"},
		},
		"it is started in time, and goes on counting its terminations": {
			observed: observed{container: waiting, memory: gone, now: after(10)},
			want: []string{
				"status: start 2, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, 1 in a row",
				createSecond, startedNext},
		},
		"a process that has just started looks for the Pod first": {
			observed: observed{container: waiting, now: after(10)},
			want:     []string{readsPod},
		},
		"one whose spec is edited is started immediately, with a new backoff": {
			observed: observed{container: newContainer(withStatus(backingOff(1, 5, after(160))), edited), memory: gone},
			want: []string{
				"status: start 2, seen 1, generation 2, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
				createSecond, startedNext},
		},
		"one that still said that its Pod terminates says that it backs off": {
			observed: observed{container: newContainer(withStatus(backingOff(1, 1, after(10), current("Failed"),
				conditions("False", "PodTerminating", "True", "WaitingForTermination", "Pod x-immortalpod is terminating")))), memory: gone},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, 1 in a row, next 12:00:10",
				"again after 10s"},
		},
		"one that is suspended stops counting and waiting": {
			observed: observed{container: newContainer(withStatus(backingOff(1, 5, after(160))), edited, suspended), memory: gone},
			want: []string{
				"status: start 1, seen 1, generation 2, Ready=False Suspended, Progressing=False Suspended",
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`},
		},
		"a new container that is suspended says so, once": {
			observed: observed{container: newContainer(suspended)},
			want: []string{
				"status: start 0, seen 0, generation 1, Ready=False Suspended, Progressing=False Suspended",
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`},
		},
		"one that has said so is left alone": {
			observed: observed{container: newContainer(suspended, withStatus(suspendedIdle(1))), memory: gone},
		},
		"one that is suspended and edited says nothing new": {
			observed: observed{container: newContainer(suspended, edited, withStatus(suspendedIdle(1))), memory: gone},
			want:     []string{"status: start 1, seen 1, generation 2, Ready=False Suspended, Progressing=False Suspended"},
		},
		"one that is resumed is started": {
			observed: observed{container: newContainer(edited, withStatus(suspendedIdle(1))), memory: gone},
			want: []string{
				"status: start 2, seen 1, generation 2, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
				createSecond, startedNext},
		},
		"a Pod that the API server calls invalid is tried again, under its number": {
			observed: observed{container: newContainer(withStatus(refused(1, "Invalid", "no such port")))},
			want:     []string{createFirst, startedFirst},
		},
		"it is tried again, under its number, when the spec is edited": {
			observed: observed{container: newContainer(edited, withStatus(refused(1, "Invalid", "no such port")))},
			want:     []string{createFirst, startedFirst},
		},
		"a Pod that quota refuses is tried again, under its number, and nothing is said meanwhile": {
			observed: observed{container: newContainer(withStatus(refused(1, "Forbidden", "exceeded quota")))},
			want:     []string{createFirst, startedFirst},
		},
		"a conflict that the cache does not show is looked at": {
			observed: observed{container: newContainer(withStatus(inConflict(1, reserved)))},
			want:     []string{readsPod},
		},
		"a conflict of a container that was running is over: another start": {
			observed: observed{container: newContainer(withStatus(inConflict(1))), live: true, memory: gone},
			want: []string{
				"status: start 2, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, Conflict=False Resolved",
				createSecond, startedNext},
		},
	})
}

func TestPlanOfWhatTheAPIServerRefuses(t *testing.T) {
	const quota = `pods "x-immortalpod" is forbidden: exceeded quota: compute`
	o := observed{container: newContainer(withStatus(creating(1, reserved))), now: noon}
	first := afterRejection(o, "Forbidden", quota)
	want := []string{
		"status: start 1, seen 0, generation 1, Ready=False Forbidden, Progressing=True Creating",
		`event Warning FailedCreate "pods \"x-immortalpod\" is forbidden: exceeded quota: compute"`,
	}
	if diff := cmp.Diff(want, describe(first)); diff != "" {
		t.Fatalf("the first refusal (-want +got):\n%s", diff)
	}
	status := first.Steps[0].(writeStatus).status
	for _, conditionType := range []string{"Ready", "Progressing"} {
		for _, c := range status.Conditions {
			if c.Type == conditionType && c.Message != quota {
				t.Errorf("%s says %q, want the API's own words", conditionType, c.Message)
			}
		}
	}

	o.container.Status, o.now = status, after(60)
	if diff := cmp.Diff([]string{}, describe(afterRejection(o, "Forbidden", quota))); diff != "" {
		t.Errorf("the same refusal again (-want +got):\n%s", diff)
	}
	if got := describe(afterRejection(o, "Forbidden", "exceeded quota: objects")); len(got) != 2 {
		t.Errorf("another refusal gives %q, want a status and an event", got)
	}
}

func TestTransitionTime(t *testing.T) {
	container := newContainer(withStatus(running(1)))
	p := decide(observed{container: container, pod: podOf(1), now: noon})
	got := map[string]metav1.Time{}
	for _, c := range p.Steps[0].(writeStatus).status.Conditions {
		got[c.Type] = c.LastTransitionTime
	}
	want := map[string]metav1.Time{"Ready": metav1.NewTime(noon), "Progressing": metav1.NewTime(noon.Add(-time.Hour))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transition times, where only Ready has changed (-want +got):\n%s", diff)
	}
}
