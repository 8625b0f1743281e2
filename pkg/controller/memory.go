// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Memory is what a process knows of each object in addition to the caches. It saves requests and events: everything works without it, as after
// a restart. It is of one object: another one of the same name has the zero T. The zero Memory is ready to use.
type Memory[T any] struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*known[T]
}

// known is what is known of the object of that UID.
type known[T any] struct {
	uid   types.UID
	value T
}

// Get returns a copy of what is known of the object.
func (m *Memory[T]) Get(key cache.ObjectName, uid types.UID) (value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; k != nil && k.uid == uid {
		value = k.value
	}
	return value
}

// Update changes what is known of the object.
func (m *Memory[T]) Update(key cache.ObjectName, uid types.UID, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, _ := m.of(key, uid)
	change(&k.value)
}

// UpdateKnown changes what is known of the object of this name, if anything is, whatever its UID.
func (m *Memory[T]) UpdateKnown(key cache.ObjectName, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; k != nil {
		change(&k.value)
	}
}

// Of returns what is known of the object, and whether it is new. Only the syncs of the key may use it, of which one runs at a time.
func (m *Memory[T]) Of(key cache.ObjectName, uid types.UID) (value *T, isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, isNew := m.of(key, uid)
	return &k.value, isNew
}

func (m *Memory[T]) of(key cache.ObjectName, uid types.UID) (k *known[T], isNew bool) {
	if k = m.byKey[key]; k != nil && k.uid == uid {
		return k, false
	}
	if m.byKey == nil {
		m.byKey = map[cache.ObjectName]*known[T]{}
	}
	k = &known[T]{uid: uid}
	m.byKey[key] = k
	return k, true
}

// Forget drops what is known of an object that is gone, and returns its UID; "" if nothing is known.
func (m *Memory[T]) Forget(key cache.ObjectName) (uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; k != nil {
		uid = k.uid
	}
	delete(m.byKey, key)
	return uid
}

// Keys returns the names of the objects of which something is known, in no order.
func (m *Memory[T]) Keys() []cache.ObjectName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.byKey))
}

// Len returns the number of objects of which something is known.
func (m *Memory[T]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byKey)
}
