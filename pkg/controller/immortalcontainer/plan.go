// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// conflictRetry is how often we look whether a Pod that is not ours has gone: it is not in our watch.
	conflictRetry = 10 * time.Second
	// settleTime is how long a Pod may be terminating before the status says so. Most are gone sooner, and then the
	// status write that reserves the next start says it all.
	settleTime = 3 * time.Second
	// startTime is how long the status may go on saying that the last Pod is terminating while the next one, which is
	// created by then, starts. Most are Ready sooner, and then that is the next thing to be said.
	startTime = 10 * time.Second
)

// Event reasons.
const (
	eventStarted      = "Started"
	eventAdopted      = "Adopted"
	eventTerminated   = "Terminated"
	eventBackingOff   = "BackingOff"
	eventReplaced     = "Replaced"
	eventSuspended    = "Suspended"
	eventCreateFailed = "FailedCreate"
)

// observed is all that is decided from. Nothing of it is changed.
type observed struct {
	container *v1alpha1.ImmortalContainer
	// pod of the name that ours has, whoever made it; nil if there is none.
	pod *corev1.Pod
	// memory of what this process knows beside the caches.
	memory podMemory
	// live tells that pod was read from the API server, not from the cache.
	live bool
	now  time.Time
}

// podMemory is what one process has seen of the Pods of one ImmortalContainer.
type podMemory struct {
	// seen is the newest start of which a Pod was seen, gone the newest whose Pod was seen to be deleted, and watched the
	// one whose Pod is in our watch.
	seen, gone, watched int64
	// deleting is the UID of the Pod that we have asked to be deleted.
	deleting types.UID
	// contest is of Pods that are deleted soon after they were created.
	contest contest
}

// plan is what to do, in order, and when to look again if nothing happens before.
type plan struct {
	steps        []step
	requeueAfter time.Duration
}

// step is one of the types below.
type step interface{ String() string }

type (
	// lookLive reads the Pod from the API server and decides anew.
	lookLive struct{}
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct {
		status v1alpha1.ImmortalContainerStatus
	}
	// createPod creates the Pod of a start. The cause is only counted. A start after a pause belongs to the same contest as the one
	// before it.
	createPod struct {
		start      int64
		cause      startCause
		afterPause bool
	}
	// deletePod deletes the Pod with its normal grace period, guarded by the UID.
	deletePod struct{ uid types.UID }
	// adoptPod makes the live ImmortalContainer the controller of an orphan of this UID.
	adoptPod struct{ uid types.UID }
	// labelPod puts our labels back on our Pod, guarded by the UID.
	labelPod struct{ uid types.UID }
	// recordEvent records an event on the ImmortalContainer.
	recordEvent struct{ eventType, reason, message string }
)

func (lookLive) String() string      { return "look at the live Pod" }
func (s writeStatus) String() string { return fmt.Sprintf("write status %+v", s.status) }
func (s createPod) String() string   { return fmt.Sprintf("create the Pod of start %d", s.start) }
func (s deletePod) String() string   { return fmt.Sprintf("delete Pod %s", s.uid) }
func (s adoptPod) String() string    { return fmt.Sprintf("adopt Pod %s", s.uid) }
func (s labelPod) String() string    { return fmt.Sprintf("label Pod %s", s.uid) }
func (s recordEvent) String() string {
	return fmt.Sprintf("event %s %s %q", s.eventType, s.reason, s.message)
}

// decide is the table of states.
func decide(o observed) plan {
	switch {
	case o.container.DeletionTimestamp != nil:
		return plan{} // the garbage collector deletes the Pod
	case o.pod == nil:
		return decideWithoutPod(o)
	case ofEarlier(o.container, o.pod):
		return waitForEarlier(o)
	case isOrphan(o.pod):
		return adopt(o)
	case !metav1.IsControlledBy(o.pod, o.container):
		return conflict(o)
	case o.pod.Labels[controller.LabelManagedBy] != controller.ManagedBy:
		return plan{steps: []step{labelPod{o.pod.UID}}} // also if it terminates: else no watch would tell when it is gone
	case o.pod.DeletionTimestamp != nil:
		return waitForTermination(o)
	case o.pod.UID == o.memory.deleting:
		return plan{} // the watch has yet to tell that it terminates
	case finished(o.pod):
		return recordTermination(o)
	case o.container.Spec.Suspend:
		return stop(o)
	case o.pod.Annotations[AnnotationSpecHash] != wantedHash(o.container):
		return replace(o)
	default:
		return mirror(o)
	}
}

// mirror shows in the status how our live Pod is, unless the Pod will be Ready in a moment.
func mirror(o observed) plan {
	steps := statusStep(o, runningStatus(o))
	if _, reason, _ := readiness(o.pod); len(steps) == 0 || reason != reasonPodStarting || !isProgressing(&o.container.Status, v1alpha1.ReasonWaitingForTermination) {
		return plan{steps: steps}
	}
	if wait := min(o.pod.CreationTimestamp.Add(startTime).Sub(o.now), startTime); wait > 0 {
		return plan{requeueAfter: wait}
	}
	return plan{steps: steps}
}

// ofEarlier tells whether the Pod belongs to an earlier object of the same name. The garbage collector deletes it.
func ofEarlier(container *v1alpha1.ImmortalContainer, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == kind.Kind && owner.APIVersion == kind.GroupVersion().String() &&
		owner.Name == container.Name && owner.UID != container.UID
}

// isOrphan reports whether the Pod was made for an ImmortalContainer of this name, and has lost it: by a deletion with --cascade=orphan, as
// a rule. The name alone proves nothing, nor does a label that users may select Pods by: our marks are there, all of them.
func isOrphan(pod *corev1.Pod) bool {
	return metav1.GetControllerOf(pod) == nil && pod.Labels[controller.LabelManagedBy] == controller.ManagedBy &&
		pod.Labels[LabelControllerUID] != "" && pod.Annotations[AnnotationSpecHash] != "" && startOf(pod) > 0
}

// adopt takes an orphan over, whatever its spec: what is to become of our own Pods is decided next. The count of starts goes on from
// its start. One that terminates is waited for.
func adopt(o observed) plan {
	if o.pod.DeletionTimestamp != nil {
		return waitForEarlier(o)
	}
	return plan{steps: []step{
		adoptPod{o.pod.UID},
		recordEvent{corev1.EventTypeNormal, eventAdopted, fmt.Sprintf("Adopted Pod %s, which a deleted ImmortalContainer of this name has left", o.pod.Name)},
	}}
}

// decideWithoutPod starts, backs off, or stays suspended.
func decideWithoutPod(o observed) plan {
	container, status := o.container, &o.container.Status
	edited := container.Generation != status.ObservedGeneration
	seen := max(status.ObservedStart, o.memory.seen)
	switch {
	case o.memory.watched > 0 && !o.live:
		return plan{} // the cache no longer has the Pod; the event that tells why is on its way
	case container.Spec.Suspend && !isProgressing(status, v1alpha1.ReasonSuspended) && status.StartTimes > o.memory.gone && !o.live:
		return plan{steps: []step{lookLive{}}} // what the watch does not show may run all the same
	case container.Spec.Suspend:
		return plan{steps: append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...)}
	case status.NextStartTime != nil && o.now.Before(status.NextStartTime.Time) && !edited:
		return plan{steps: statusStep(o, backingOffStatus(o)), requeueAfter: status.NextStartTime.Sub(o.now)}
	case isRejected(status) && !edited:
		return plan{} // the API server has refused this very Pod as invalid
	case (isConflict(status) || isProgressing(status, v1alpha1.ReasonWaitingForTermination) && status.StartTimes > o.memory.gone && (seen == 0 || seen > o.memory.gone)) && !o.live:
		return plan{steps: []step{lookLive{}}} // the Pod that was in our way may be there yet, outside of our watch
	case status.StartTimes > seen:
		return complete(o)
	case status.StartTimes > o.memory.gone && !o.live:
		// A Pod of this start has been. That it is gone we know only from its deletion, or from the API server: the
		// cache may lag behind, or somebody may have stripped the label by which we watch.
		return plan{steps: []step{lookLive{}}}
	default:
		if wait := contestWait(o); wait > 0 {
			return pauseContest(o, wait)
		}
		return reserve(o)
	}
}

// reserve counts one more start, then does it.
func reserve(o observed) plan {
	status := creatingStatus(o)
	status.StartTimes = max(status.StartTimes, status.ObservedStart) + 1
	return start(o, []step{writeStatus{status}}, status.StartTimes)
}

// complete does the start that is reserved already.
func complete(o observed) plan {
	var steps []step
	status := &o.container.Status
	said := isProgressing(status, v1alpha1.ReasonCreating) || isProgressing(status, v1alpha1.ReasonWaitingForTermination) && status.CurrentPod != ""
	if !said || isConflict(status) || status.NextStartTime != nil {
		steps = statusStep(o, creatingStatus(o))
	}
	return start(o, steps, status.StartTimes)
}

func start(o observed, steps []step, number int64) plan {
	return plan{steps: append(steps, createPod{number, causeOf(&o.container.Status, number), isContestPause(&o.container.Status)},
		recordEvent{corev1.EventTypeNormal, eventStarted, fmt.Sprintf("Created Pod %s, start %d", podName(o.container.Name), number)})}
}

// recordTermination records how the Pod ended, once, and removes it.
func recordTermination(o observed) plan {
	status := terminatedStatus(o)
	steps := statusStep(o, status)
	if !sameTermination(o.container.Status.LastTermination, status.LastTermination) {
		steps = append(steps, terminationEvents(status)...)
	}
	if o.container.Spec.Suspend {
		steps = append(steps, suspendedEvent(o)...)
	}
	p := plan{steps: append(steps, deletePod{o.pod.UID})}
	if status.NextStartTime != nil {
		p.requeueAfter = max(status.NextStartTime.Sub(o.now), 0)
	}
	return p
}

func terminationEvents(status v1alpha1.ImmortalContainerStatus) []step {
	termination := status.LastTermination
	eventType, message := corev1.EventTypeWarning, fmt.Sprintf("Pod %s terminated: %s", termination.Pod, termination.Reason)
	if termination.ExitCode != nil {
		message += fmt.Sprintf(", exit code %d", *termination.ExitCode)
		if *termination.ExitCode == 0 {
			eventType = corev1.EventTypeNormal
		}
	}
	steps := []step{recordEvent{eventType, eventTerminated, message}}
	if status.NextStartTime != nil {
		steps = append(steps, recordEvent{corev1.EventTypeNormal, eventBackingOff, backingOffMessage(&status)})
	}
	return steps
}

// replace removes the Pod of an older spec.
func replace(o observed) plan {
	steps := statusStep(o, replacingStatus(o))
	if !isProgressing(&o.container.Status, v1alpha1.ReasonReplacing) {
		steps = append(steps, recordEvent{corev1.EventTypeNormal, eventReplaced, fmt.Sprintf("Deleting Pod %s to replace it: the spec has changed", o.pod.Name)})
	}
	return plan{steps: append(steps, deletePod{o.pod.UID})}
}

// stop removes the Pod of a suspended container.
func stop(o observed) plan {
	return plan{steps: append(append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...), deletePod{o.pod.UID})}
}

func suspendedEvent(o observed) []step {
	if isProgressing(&o.container.Status, v1alpha1.ReasonSuspended) {
		return nil
	}
	return []step{recordEvent{corev1.EventTypeNormal, eventSuspended, "Suspended: no Pod runs until spec.suspend is false"}}
}

// waitForTermination tells that our Pod terminates, unless it will be gone in a moment. Whoever says so reserves the start
// that follows: then a recovery takes one status write before its Pod, however long it has to wait.
func waitForTermination(o observed) plan {
	if o.container.Spec.Suspend {
		return plan{steps: append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...)}
	}
	steps := statusStep(o, terminatingStatus(o))
	if len(steps) == 0 {
		return plan{}
	}
	if wait := min(terminatingSince(o.pod).Add(settleTime).Sub(o.now), settleTime); wait > 0 {
		return plan{requeueAfter: wait}
	}
	return plan{steps: steps}
}

// terminatingSince is when the deletion was asked for: the deletionTimestamp is when the grace period ends.
func terminatingSince(pod *corev1.Pod) time.Time {
	since := pod.DeletionTimestamp.Time
	if pod.DeletionGracePeriodSeconds != nil {
		since = since.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	return since
}

// waitForEarlier waits until the Pod of an earlier object of this name is gone. It may not be in our watch.
func waitForEarlier(o observed) plan {
	return plan{steps: statusStep(o, earlierStatus(o)), requeueAfter: conflictRetry}
}

// conflict tells, once, that a Pod of somebody else has the name that ours needs.
func conflict(o observed) plan {
	p := plan{steps: statusStep(o, conflictStatus(o)), requeueAfter: conflictRetry}
	if !isConflict(&o.container.Status) {
		p.steps = append(p.steps, recordEvent{corev1.EventTypeWarning, controller.ReasonResourceExists, conflictMessage(o.pod.Name)})
	}
	return p
}

// afterRefusal tells why the API server refused to create the Pod, in its own words. Nothing is said twice.
func afterRefusal(o observed, reason, message string) plan {
	steps := statusStep(o, refusedStatus(o, reason, message))
	if len(steps) > 0 {
		steps = append(steps, recordEvent{corev1.EventTypeWarning, eventCreateFailed, message})
	}
	return plan{steps: steps}
}
