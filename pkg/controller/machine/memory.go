// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// memory is what this process knows in addition to the caches. It saves requests and events. Everything works without it, as after a
// restart.
type memory struct {
	mu sync.Mutex
	// deleting are the switches that we have deleted, until the cache has seen that they are gone, with the Machine that had them.
	deleting map[types.UID]cache.ObjectName
	// deletingOf are the same switches, by Machine.
	deletingOf map[cache.ObjectName]sets.Set[types.UID]
	// reported are, by Machine, the foreign switches that an event has reported.
	reported map[cache.ObjectName]sets.Set[types.UID]
}

func (m *memory) isDeleting(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, deleting := m.deleting[uid]
	return deleting
}

// beingDeleted returns the switches of a Machine that we have deleted and the cache still has.
func (m *memory) beingDeleted(machine cache.ObjectName) sets.Set[types.UID] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deletingOf[machine].Clone()
}

// startDeleting has to be called before the request: after it the cache may have seen already that the Switch is gone.
func (m *memory) startDeleting(machine cache.ObjectName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deleting == nil {
		m.deleting, m.deletingOf = map[types.UID]cache.ObjectName{}, map[cache.ObjectName]sets.Set[types.UID]{}
	}
	if m.deletingOf[machine] == nil {
		m.deletingOf[machine] = sets.New[types.UID]()
	}
	m.deleting[uid] = machine
	m.deletingOf[machine].Insert(uid)
}

// stopDeleting forgets a Switch that is gone, or whose deletion was not accepted.
func (m *memory) stopDeleting(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine, deleting := m.deleting[uid]
	if !deleting {
		return
	}
	delete(m.deleting, uid)
	delete(m.deletingOf[machine], uid)
	if len(m.deletingOf[machine]) == 0 {
		delete(m.deletingOf, machine)
	}
}

// maxReported is how many foreign switches of a Machine are reported and remembered.
const maxReported = 100

// unreported returns the foreign switches that it has not returned before, and forgets those that are foreign no longer. It remembers maxReported at
// most, and does not return others.
func (m *memory) unreported(key cache.ObjectName, foreign []*v1alpha1.Switch) (unreported []*v1alpha1.Switch) {
	m.mu.Lock()
	reported := m.reported[key] // it is replaced, not changed
	m.mu.Unlock()
	now := sets.New[types.UID]()
	for _, sw := range foreign {
		if reported.Has(sw.UID) {
			now.Insert(sw.UID)
		}
	}
	for _, sw := range foreign {
		if len(now) >= maxReported {
			break
		}
		if !now.Has(sw.UID) {
			now.Insert(sw.UID)
			unreported = append(unreported, sw)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(now) == 0 {
		delete(m.reported, key)
		return nil
	}
	if m.reported == nil {
		m.reported = map[cache.ObjectName]sets.Set[types.UID]{}
	}
	m.reported[key] = now
	return unreported
}
