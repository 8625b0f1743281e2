// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// observed is all that a sync decides from. Nothing of it is changed.
type observed struct {
	container *v1alpha1.ImmortalContainer
	// pod has the name of our Pod, but may be foreign; nil if there is none.
	pod *corev1.Pod
	// memory is what this process knows in addition to the caches.
	memory podMemory
	// live reports whether pod was read from the API server, not from the cache.
	live bool
	now  time.Time
}

// podMemory is what one process has seen of the Pods of one ImmortalContainer.
type podMemory struct {
	// seen is the newest start whose Pod was seen, gone the newest whose Pod was seen to be deleted, and watched the one whose Pod
	// is in our watch.
	seen, gone, watched int64
	// deleting is the UID of the Pod that we have deleted.
	deleting types.UID
	// contest is of Pods that are deleted soon after they were created.
	contest contest
}

// ownership returns the ownership of the Pod with our Pod's name.
func (o *observed) ownership() controller.Ownership {
	return controller.OwnershipOf(o.container, kind, o.pod, isOrphan)
}

// isOrphan reports whether a Pod without a controller was created for an ImmortalContainer of this name and has lost it, usually by a deletion with
// --cascade=orphan. The name alone proves nothing, nor does one label: the Pod must have all our labels and annotations.
func isOrphan(pod *corev1.Pod) bool {
	return pod.Labels[controller.LabelManagedBy] == controller.ManagedBy &&
		pod.Labels[LabelControllerUID] != "" && pod.Annotations[AnnotationSpecHash] != "" && startOf(pod) > 0
}

// isEdited reports whether the spec has changed since the status was written.
func (o *observed) isEdited() bool {
	return o.container.Generation != o.container.Status.ObservedGeneration
}

// isLeavingWatch reports whether the cache has just lost the Pod. The event that shows why has not been handled yet.
func (o *observed) isLeavingWatch() bool { return o.memory.watched > 0 && !o.live }

// seenStart returns the newest start of which a Pod was seen.
func (o *observed) seenStart() int64 { return max(o.container.Status.ObservedStart, o.memory.seen) }

// mayRunUnseen reports whether the Pod of the newest start may exist although the watch does not show it. Only its deletion, or a live read, proves
// that it is gone: the cache may be stale, or another client may have removed the label by which we watch.
func (o *observed) mayRunUnseen() bool {
	return o.container.Status.StartTimes > o.memory.gone && !o.live
}

// mayBeBlocked reports whether the Pod that had our name may still exist, outside of our watch.
func (o *observed) mayBeBlocked() bool {
	status, seen := &o.container.Status, o.seenStart()
	waited := isProgressing(status, v1alpha1.ReasonWaitingForTermination) && o.mayRunUnseen() && (seen == 0 || seen > o.memory.gone)
	return (isConflict(status) || waited) && !o.live
}

// isBackingOff reports whether the next start is due later. An edit ends the backoff.
func (o *observed) isBackingOff() bool {
	next := o.container.Status.NextStartTime
	return next != nil && o.now.Before(next.Time) && !o.isEdited()
}

// isReserved reports whether a start is counted whose Pod was never seen.
func (o *observed) isReserved() bool { return o.container.Status.StartTimes > o.seenStart() }
