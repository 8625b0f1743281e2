// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"k8s.io/client-go/tools/cache"
)

func TestMemory(t *testing.T) {
	var m Memory[int]
	a, b := cache.NewObjectName("ns", "a"), cache.NewObjectName("ns", "b")
	if got := m.Get(a, "1"); got != 0 || m.Len() != 0 {
		t.Errorf("an empty memory has %d of a, and %d objects", got, m.Len())
	}
	m.Update(a, "1", func(value *int) { *value = 5 })
	m.Update(a, "1", func(value *int) { *value++ })
	if got := m.Get(a, "1"); got != 6 {
		t.Errorf("a has %d, want 6", got)
	}
	if got := m.Keys(); len(got) != 1 || got[0] != a {
		t.Errorf("the keys are %v", got)
	}
	if got := m.Get(b, "1"); got != 0 {
		t.Errorf("b has %d of a", got)
	}
	if got := m.Get(a, "2"); got != 0 || m.Get(a, "1") != 6 {
		t.Errorf("another object of the name has %d, and a %d", got, m.Get(a, "1"))
	}

	value, isNew := m.Of(a, "1")
	if isNew || *value != 6 {
		t.Errorf("of a there is %d, new: %t", *value, isNew)
	}
	*value = 7
	if again, isNew := m.Of(a, "1"); again != value || isNew || m.Get(a, "1") != 7 {
		t.Error("the next sync has another value")
	}
	if value, isNew := m.Of(a, "2"); !isNew || *value != 0 {
		t.Errorf("another object of the name begins with %d, new: %t", *value, isNew)
	}
	if got := m.Get(a, "1"); got != 0 || m.Len() != 1 {
		t.Errorf("of the object that was replaced there is %d, and %d objects", got, m.Len())
	}
}

func TestMemoryForget(t *testing.T) {
	var m Memory[int]
	a := cache.NewObjectName("ns", "a")
	if uid := m.Forget(a); uid != "" {
		t.Errorf("an empty memory forgets %q", uid)
	}
	m.Update(a, "1", func(value *int) { *value = 5 })
	if uid := m.Forget(a); uid != "1" || m.Len() != 0 || m.Get(a, "1") != 0 {
		t.Errorf("forgot %q, and still has %d", uid, m.Get(a, "1"))
	}
}
