// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// memories are what this process remembers of each HelloApp. They save requests; everything works without them, as it must
// after a restart.
type memories struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]memory
}

func (m *memories) of(key cache.ObjectName) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key]
}

// forget what is remembered of a HelloApp that is gone.
func (m *memories) forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// update what is remembered of a HelloApp.
func (m *memories) update(key cache.ObjectName, change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[cache.ObjectName]memory{}
	}
	memory := m.byKey[key]
	change(&memory)
	m.byKey[key] = memory
}
