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

// memory is what this process knows beside the caches. It saves requests and events; everything works without it, as it must
// after a restart.
type memory struct {
	mu sync.Mutex
	// deleting are the switches whose deletion we have asked for, until the cache has seen them go.
	deleting sets.Set[types.UID]
	// told are, by Machine, the strangers that an event was recorded about.
	told map[cache.ObjectName]sets.Set[types.UID]
}

func (m *memory) isDeleting(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deleting.Has(uid)
}

// beingDeleted are all whose deletion we have asked for.
func (m *memory) beingDeleted() sets.Set[types.UID] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deleting.Clone()
}

// startDeleting has to be called before the request: afterwards the cache may have seen the end of it already.
func (m *memory) startDeleting(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deleting == nil {
		m.deleting = sets.New[types.UID]()
	}
	m.deleting.Insert(uid)
}

// stopDeleting of a Switch that is gone, or whose deletion was not accepted.
func (m *memory) stopDeleting(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleting.Delete(uid)
}

// news returns the strangers of which it was not asked before, and forgets those that are none any more.
func (m *memory) news(key cache.ObjectName, strangers []*v1alpha1.Switch) (news []*v1alpha1.Switch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(strangers) == 0 {
		delete(m.told, key)
		return nil
	}
	now := sets.New[types.UID]()
	for _, sw := range strangers {
		now.Insert(sw.UID)
		if !m.told[key].Has(sw.UID) {
			news = append(news, sw)
		}
	}
	if m.told == nil {
		m.told = map[cache.ObjectName]sets.Set[types.UID]{}
	}
	m.told[key] = now
	return news
}
