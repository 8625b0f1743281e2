// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// memories are what this process has seen of the Pods of each ImmortalContainer. They save requests and sharpen the count
// of starts; everything works without them, as it must after a restart.
type memories struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]ownedMemory
}

// ownedMemory is of one object: another one of the same name starts with an empty one.
type ownedMemory struct {
	owner types.UID
	podMemory
}

// of the ImmortalContainer with that name and UID.
func (m *memories) of(key cache.ObjectName, owner types.UID) podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned(key, owner).podMemory
}

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

// unwatched remembers that a Pod of ours is no longer in our watch, and whether it is gone.
func (m *memories) unwatched(key cache.ObjectName, pod *corev1.Pod, gone bool) {
	m.update(key, pod, func(memory *podMemory) {
		memory.watched = 0
		if gone {
			memory.gone = max(memory.gone, startOf(pod))
		}
	})
}

// recreated remembers that a Pod was created in the place of a deleted one.
func (m *memories) recreated(key cache.ObjectName, pod *corev1.Pod, now time.Time, afterPause bool) {
	m.update(key, pod, func(memory *podMemory) { memory.contest = memory.contest.started(now, afterPause) })
}

// deleting remembers that the API server has accepted our deletion of the Pod.
func (m *memories) deleting(key cache.ObjectName, pod *corev1.Pod) {
	m.update(key, pod, func(memory *podMemory) { memory.deleting = pod.UID })
}

// forget what is known of an object that is gone.
func (m *memories) forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

func (m *memories) update(key cache.ObjectName, pod *corev1.Pod, change func(*podMemory)) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != kind.Kind {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.owned(key, owner.UID)
	change(&memory.podMemory)
	if m.byKey == nil {
		m.byKey = map[cache.ObjectName]ownedMemory{}
	}
	m.byKey[key] = memory
}

func (m *memories) owned(key cache.ObjectName, owner types.UID) ownedMemory {
	memory := m.byKey[key]
	if memory.owner != owner {
		memory = ownedMemory{owner: owner}
	}
	return memory
}
