// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

const (
	deleteFirst  = "delete Pod uid-pod-1"
	isReady      = "status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"
	isReplacing  = "status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Replacing, Progressing=True Replacing"
	isTerminated = "status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 1 in a row, next 12:00:09"
)

func TestPlanWhereOurPodLives(t *testing.T) {
	testPlans(t, map[string]planCase{
		"a Pod that has just been created needs no word": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), pod: podOf(1)},
		},
		"nor does one that the API server answered without a phase": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), pod: podOf(1, func(p *corev1.Pod) { p.Status.Phase = "" })},
		},
		"a Pod that has become ready is said to be": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), pod: podOf(1, podReady)},
			want:     []string{isReady},
		},
		"a Pod that starts after one that was said to terminate is given ten seconds": {
			observed: observed{container: newContainer(withStatus(terminatingOf(2))), pod: podOf(2, podCreatedAt(-4))},
			want:     []string{"again after 6s"},
		},
		"after that it is said to start": {
			observed: observed{container: newContainer(withStatus(terminatingOf(2))), pod: podOf(2, podCreatedAt(-10))},
			want:     []string{"status: start 2, seen 2, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating"},
		},
		"a problem of its container is shown immediately": {
			observed: observed{container: newContainer(withStatus(terminatingOf(2))), pod: podOf(2, podCreatedAt(-4), podWaiting("ImagePullBackOff"))},
			want:     []string{"status: start 2, seen 2, generation 1, Pod x-immortalpod Pending, Ready=False ImagePullBackOff, Progressing=True Creating"},
		},
		"a Pod that goes on running needs nothing": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, podReady)},
		},
		"the same, read from the API server": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, podReady), live: true},
		},
		"a Pod that was ready and is not any more is not said to be starting": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, func(p *corev1.Pod) { p.Status.Phase = "Running" })},
			want:     []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=False PodNotReady, Progressing=False Running"},
		},
		"a Pod that runs and has yet to be ready is starting": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), pod: podOf(1, func(p *corev1.Pod) { p.Status.Phase = "Running" })},
			want:     []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=False PodNotReady, Progressing=True Creating"},
		},
		"an edit that does not change the Pod is observed": {
			observed: observed{container: newContainer(withStatus(running(1)), edited,
				func(c *v1alpha1.ImmortalContainer) { c.Spec.Backoff.MaxSeconds = 60 }), pod: podOf(1, podReady)},
			want: []string{"status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"},
		},
		"a Pod that starts after a back-off ends it": {
			observed: observed{container: newContainer(withStatus(backingOff(1, 1, after(-10)))), pod: podOf(1)},
			want:     []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, 1 in a row"},
		},
		"a status that was lost takes the number of starts from the Pod": {
			observed: observed{pod: podOf(7, podReady)},
			want:     []string{"status: start 7, seen 7, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"},
		},
		"a status that was restored from an older backup, too": {
			observed: observed{container: newContainer(withStatus(running(3))), pod: podOf(7, podReady)},
			want:     []string{"status: start 7, seen 7, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"},
		},
		"a Pod that we have deleted is not touched until the watch shows that it terminates": {
			observed: observed{container: newContainer(edited), pod: podOf(1, podReady, podOfOldSpec), memory: podMemory{seen: 1, deleting: "uid-pod-1"}},
		},
		"another Pod than the one that we have asked to be deleted is": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, podReady, podOfOldSpec), memory: podMemory{seen: 1, deleting: "uid-pod-0"}},
			want: []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=False Replacing, Progressing=True Replacing",
				`event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`, deleteFirst},
		},
		"a Pod whose managed-by label was taken away gets it back": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, podReady, podUnlabelled), live: true},
			want:     []string{"label Pod uid-pod-1"},
		},
		"a container that is being deleted leaves its Pod to the garbage collector": {
			observed: observed{container: newContainer(func(c *v1alpha1.ImmortalContainer) { c.DeletionTimestamp = timeAt(noon) }),
				pod: podOf(1, podEnded(1, "Error", -1))},
		},
	})
}

func TestPlanWhereOurPodIsNotWanted(t *testing.T) {
	testPlans(t, map[string]planCase{
		"a Pod of an older spec is deleted, and why is said": {
			observed: observed{container: newContainer(edited, withStatus(running(1))), pod: podOf(1, podReady, podOfOldSpec)},
			want:     []string{isReplacing, `event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`, deleteFirst},
		},
		"a deletion that failed is tried again, and nothing is said twice": {
			observed: observed{container: newContainer(withStatus(replacing(1))), pod: podOf(1, podReady, podOfOldSpec)},
			want:     []string{deleteFirst},
		},
		"a Pod of a spec that was edited back is kept": {
			observed: observed{container: newContainer(withStatus(replacing(1))), pod: podOf(1, podReady)},
			want:     []string{isReady},
		},
		"a new image makes another spec": {
			observed: observed{container: newContainer(edited, withStatus(running(1)),
				func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" }), pod: podOf(1, podReady)},
			want: []string{isReplacing, `event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`, deleteFirst},
		},
		"an image that a webhook rewrote in the Pod does not": {
			observed: observed{container: newContainer(withStatus(running(1))), pod: podOf(1, podReady, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror.example/nginx:1" })},
		},
		"a Pod of a suspended container is deleted": {
			observed: observed{container: newContainer(edited, suspended, withStatus(running(1))), pod: podOf(1, podReady)},
			want: []string{
				"status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Suspended, Progressing=False Suspended",
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`, deleteFirst},
		},
		"a suspended container whose Pod terminates says that it is suspended": {
			observed: observed{container: newContainer(edited, suspended, withStatus(running(1))), pod: podOf(1, podReady, podTerminating(0))},
			want: []string{
				"status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Suspended, Progressing=False Suspended",
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`},
		},
		"the Pod of a suspended container that ended by itself is recorded and deleted, without a back-off": {
			observed: observed{container: newContainer(edited, suspended, withStatus(running(1))), pod: podOf(1, podEnded(1, "Error", -1))},
			want: []string{
				"status: start 1, seen 1, generation 2, Ready=False Suspended, Progressing=False Suspended, last Error 1",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`,
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`, deleteFirst},
		},
	})
}

func TestPlanWhereOurPodTerminates(t *testing.T) {
	is := newContainer(withStatus(running(1)))
	const terminating = "status: start 2, seen 1, generation 1, Pod x-immortalpod Running, Ready=False PodTerminating, Progressing=True WaitingForTermination"
	noGracePeriod := func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = nil }
	testPlans(t, map[string]planCase{
		"it may be gone in a moment: nothing is said for three seconds": {
			observed: observed{container: is, pod: podOf(1, podReady, podTerminating(0))},
			want:     []string{"again after 3s"},
		},
		"they are counted from when its deletion was asked for": {
			observed: observed{container: is, pod: podOf(1, podReady, podTerminating(0)), now: noon.Add(400 * time.Millisecond)},
			want:     []string{"again after 2.6s"},
		},
		"after that it is said": {
			observed: observed{container: is, pod: podOf(1, podReady, podTerminating(-3))},
			want:     []string{terminating},
		},
		"one that says no grace period is waited for until its time": {
			observed: observed{container: is, pod: podOf(1, podReady, podTerminating(-30), noGracePeriod)},
			want:     []string{"again after 3s"},
		},
		"a clock that is behind makes the moment no longer": {
			observed: observed{container: is, pod: podOf(1, podReady, podTerminating(3600))},
			want:     []string{"again after 3s"},
		},
		"once it is said, it is waited for in silence": {
			observed: observed{container: newContainer(withStatus(terminatingOf(2))), pod: podOf(1, podReady, podTerminating(-100))},
		},
		"a start that is reserved already is not reserved again": {
			observed: observed{container: newContainer(withStatus(newStatus(2, reserved))), pod: podOf(1, podReady, podTerminating(-100))},
			want:     []string{terminating},
		},
		"a Pod that is being replaced goes on being replaced": {
			observed: observed{container: newContainer(withStatus(replacing(1))), pod: podOf(1, podReady, podOfOldSpec, podTerminating(-100))},
		},
		"a Pod that ends while it is being deleted did not end by itself": {
			observed: observed{container: is, pod: podOf(1, podEnded(137, "Error", -3), podTerminating(-5))},
			want:     []string{"status: start 2, seen 1, generation 1, Pod x-immortalpod Failed, Ready=False PodTerminating, Progressing=True WaitingForTermination"},
		},
	})
}

func TestPlanWhereOurPodHasEnded(t *testing.T) {
	is := newContainer(withStatus(running(1)))
	const backOff = `event Normal BackingOff "Next start at 2026-03-01T12:00:09Z, after 1 terminations in a row"`
	ended := func(options ...statusOption) containerOption {
		return withStatus(backingOff(1, 1, after(9), append(options, terminationOfPod(1, "Error", -1))...))
	}
	testPlans(t, map[string]planCase{
		"it is recorded, then deleted, and the next start waits": {
			observed: observed{container: is, pod: podOf(1, podEnded(1, "Error", -1))},
			want:     []string{isTerminated, `event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`, backOff, deleteFirst, "again after 9s"},
		},
		"one that has done its work is started again all the same": {
			observed: observed{container: is, pod: podOf(1, podEnded(0, "Completed", -1))},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Completed 0, 1 in a row, next 12:00:09",
				`event Normal Terminated "Pod x-immortalpod terminated: Completed, exit code 0"`, backOff, deleteFirst, "again after 9s"},
		},
		"one that was never admitted has no exit code": {
			observed: observed{container: is, pod: podOf(1, func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no cpu left"}
				p.CreationTimestamp = metav1.NewTime(after(-1))
			})},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last OutOfcpu, 1 in a row, next 12:00:09",
				`event Warning Terminated "Pod x-immortalpod terminated: OutOfcpu"`, backOff, deleteFirst, "again after 9s"},
		},
		"one that is recorded already is deleted in silence": {
			observed: observed{container: newContainer(ended()), pod: podOf(1, podEnded(1, "Error", -1))},
			want:     []string{deleteFirst, "again after 9s"},
		},
		"one that is recorded, and whose next start is due, is deleted in silence": {
			observed: observed{container: newContainer(ended()), pod: podOf(1, podEnded(1, "Error", -1)), now: after(20)},
			want:     []string{deleteFirst},
		},
		"one that ended long ago, when no controller ran, is not waited for": {
			observed: observed{container: is, pod: podOf(1, podEnded(1, "Error", -3600))},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 1 in a row, next 11:00:10",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`,
				`event Normal BackingOff "Next start at 2026-03-01T11:00:10Z, after 1 terminations in a row"`, deleteFirst},
		},
		"one that has ended in the future of our clock is waited for from now": {
			observed: observed{container: is, pod: podOf(1, podEnded(1, "Error", 3600))},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 1 in a row, next 12:00:10",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`,
				`event Normal BackingOff "Next start at 2026-03-01T12:00:10Z, after 1 terminations in a row"`, deleteFirst, "again after 10s"},
		},
		"one that has run for long is waited for as if it were the first": {
			observed: observed{container: newContainer(withStatus(running(1, func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveTerminations = 5 }))),
				pod: podOf(1, podEnded(1, "Error", -1), func(p *corev1.Pod) { p.Status.StartTime = timeAt(after(-601)) })},
			want: []string{isTerminated, `event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`, backOff, deleteFirst, "again after 9s"},
		},
		"one that ended soon again is waited for longer": {
			observed: observed{container: newContainer(withStatus(running(1, terminationOfPod(1, "Error", -100),
				func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveTerminations = 1 }))),
				pod: podOf(1, podEnded(1, "Error", -1))},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 2 in a row, next 12:00:19",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`,
				`event Normal BackingOff "Next start at 2026-03-01T12:00:19Z, after 2 terminations in a row"`, deleteFirst, "again after 19s"},
		},
		"one of an older spec is no reason to wait": {
			observed: observed{container: newContainer(edited, withStatus(running(1))), pod: podOf(1, podOfOldSpec, podEnded(1, "Error", -1))},
			want: []string{
				"status: start 1, seen 1, generation 2, Ready=False Replacing, Progressing=True Replacing, last Error 1",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`, deleteFirst},
		},
		"one that is recorded, and whose spec was edited then, is no reason to wait any more": {
			observed: observed{container: newContainer(ended(), edited), pod: podOf(1, podOfOldSpec, podEnded(1, "Error", -1))},
			want:     []string{"status: start 1, seen 1, generation 2, Ready=False Replacing, Progressing=True Replacing, last Error 1", deleteFirst},
		},
		"the same end of an earlier Pod is another one": {
			observed: observed{container: newContainer(withStatus(running(1, terminationOfPod(1, "Error", -2),
				func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveTerminations = 1 }))),
				pod: podOf(1, podEnded(1, "Error", -1))},
			want: []string{
				"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 2 in a row, next 12:00:19",
				`event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`,
				`event Normal BackingOff "Next start at 2026-03-01T12:00:19Z, after 2 terminations in a row"`, deleteFirst, "again after 19s"},
		},
		"one that terminates by a finalizer after it is recorded keeps the time of the next start": {
			observed: observed{container: newContainer(ended()), now: after(3), pod: podOf(1, podEnded(1, "Error", -1), podTerminating(-31),
				func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })},
			want: []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Failed, Ready=False PodTerminating, Progressing=True WaitingForTermination, last Error 1, 1 in a row, next 12:00:09"},
		},
	})
}
