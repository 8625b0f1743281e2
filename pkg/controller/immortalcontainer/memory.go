// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
)

// memories are what this process has seen of the Pods of each ImmortalContainer. They save requests and sharpen the count
// of starts; everything works without them, as it must after a restart.
type memories struct{ controller.Memory[podMemory] }

// saw remembers that a Pod of ours exists.
func (m *memories) saw(key cache.ObjectName, pod *corev1.Pod) {
	m.update(key, pod, func(memory *podMemory) { memory.seen = max(memory.seen, startOf(pod)) })
}

// watched remembers that a Pod of ours is in our watch.
func (m *memories) watched(key cache.ObjectName, pod *corev1.Pod) {
	m.update(key, pod, func(memory *podMemory) {
		memory.seen = max(memory.seen, startOf(pod))
		memory.watched = startOf(pod)
	})
}

// unwatched remembers that a Pod of ours is no longer in our watch, and whether it is gone. It may have lost its owner before.
func (m *memories) unwatched(key cache.ObjectName, pod *corev1.Pod, gone bool) {
	m.UpdateKnown(key, func(memory *podMemory) { memory.watched = 0 })
	if gone {
		m.update(key, pod, func(memory *podMemory) { memory.gone = max(memory.gone, startOf(pod)) })
	}
}

// recreated remembers that a Pod was created in the place of a deleted one.
func (m *memories) recreated(key cache.ObjectName, pod *corev1.Pod, now time.Time, afterPause bool) {
	m.update(key, pod, func(memory *podMemory) { memory.contest = memory.contest.started(now, afterPause) })
}

// deleting remembers that the API server has accepted our deletion of the Pod.
func (m *memories) deleting(key cache.ObjectName, pod *corev1.Pod) {
	m.update(key, pod, func(memory *podMemory) { memory.deleting = pod.UID })
}

// update what is remembered of the ImmortalContainer that controls the Pod.
func (m *memories) update(key cache.ObjectName, pod *corev1.Pod, change func(*podMemory)) {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == kind.Kind {
		m.Update(key, owner.UID, change)
	}
}
