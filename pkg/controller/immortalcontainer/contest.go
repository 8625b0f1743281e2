// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// contestedLife is the longest life of a Pod whose deletion counts as one of a series. A client that deletes Pods more rarely, a chaos test for
// example, never makes the next one wait.
const contestedLife = 3 * time.Second

const eventContested = "Contested"

// contest is what one process remembers of Pods that another client deletes each time soon after they were created.
type contest struct {
	starts controller.RewriteBackoff
	// created is when the newest of them was created.
	created time.Time
}

// started returns the contest after a start that replaces a deleted Pod. A start after a pause belongs to the series, however long the pause
// was.
func (c contest) started(now time.Time, afterPause bool) contest {
	if !afterPause && !c.isSoon(now) {
		c.starts = controller.RewriteBackoff{}
	}
	return contest{c.starts.Add(now), now}
}

// wait returns how long the next start has to wait if the deletion of its Pod is found now.
func (c contest) wait(now time.Time) time.Duration {
	if !c.isSoon(now) {
		return 0
	}
	return c.starts.Wait(now)
}

func (c contest) isSoon(now time.Time) bool { return now.Sub(c.created) < contestedLife }

// isContestPause reports whether the status waits for a start after a deletion, not after a termination.
func isContestPause(status *v1alpha1.ImmortalContainerStatus) bool {
	return status.NextStartTime != nil && status.ConsecutiveTerminations == 0
}

// contestWait returns how long the next start has to wait because Pods are deleted soon after they are created. An edit ends the wait, and a
// wait that is over does not begin again.
func contestWait(o observed) time.Duration {
	status := &o.container.Status
	if o.isEdited() || isContestPause(status) || causeOf(status, status.StartTimes+1) != causeDeleted {
		return 0
	}
	return o.memory.contest.wait(o.now)
}

// pauseContest delays the next start. The time is recorded in the status, so that another process waits for it too.
func pauseContest(o observed, wait time.Duration) controller.Plan {
	status := contestedStatus(o, wait)
	return controller.Plan{
		Steps:        []controller.Step{writeStatus{status}, controller.WarningEvent(eventContested, "%s", contestedMessage(podName(o.container.Name)))},
		RequeueAfter: status.NextStartTime.Sub(o.now),
	}
}

func contestedStatus(o observed, wait time.Duration) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	status.ConsecutiveTerminations = 0
	next := o.now.Add(wait + time.Second - 1).Truncate(time.Second) // the API keeps whole seconds
	status.NextStartTime = &metav1.Time{Time: next}
	setBackingOff(o, &status)
	return status
}

func contestedMessage(pod string) string {
	return fmt.Sprintf("Pod %s is deleted each time soon after it was created: the wait before the next one grows up to %s. "+
		"The audit log shows which client deletes it", pod, controller.MaxRewriteBackoff)
}
