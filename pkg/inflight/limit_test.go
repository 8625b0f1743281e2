// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestLimits(t *testing.T) {
	l := NewLimit[string](2, 3)
	try := func(key string, want bool) func() {
		t.Helper()
		release, ok := l.TryAcquire(key)
		if ok != want {
			t.Errorf("%s acquires one: got %t, want %t", key, ok, want)
		}
		return release
	}
	release := try("a", true)
	try("a", true)
	try("a", false) // the limit of a key
	releaseOther := try("b", true)
	try("c", false) // the limit of all
	release()
	release() // counts once
	try("c", true)
	try("b", false)
	releaseOther()
	try("a", true)
	try("a", false)
	if len(l.held) != 2 {
		t.Errorf("got %d keys, want the two that have one", len(l.held))
	}
}

// The first that waits acquires what is released, unless its key is at its limit.
func TestAcquireOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimit[string](2, 3)
		var acquired []string
		releases := map[string]func(){}
		acquire := func(key, name string) {
			go func() {
				release, err := l.Acquire(t.Context(), key)
				if err != nil {
					t.Error(err)
				}
				acquired, releases[name] = append(acquired, name), release
			}()
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(acquired, names) {
				t.Errorf("got %v, want %v", acquired, names)
			}
		}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			acquire(name[:1], name)
		}
		want("a1", "a2", "b1") // b1 does not wait for a3
		releases["b1"]()
		want("a1", "a2", "b1", "b2")
		if _, ok := l.TryAcquire("a"); ok {
			t.Error("TryAcquire overtakes a3")
		}
		releases["a1"]()
		want("a1", "a2", "b1", "b2", "a3")
		releases["a2"]()
		want("a1", "a2", "b1", "b2", "a3", "a4")
		releases["b2"]()
		want("a1", "a2", "b1", "b2", "a3", "a4", "c1")
		for _, name := range []string{"a3", "a4", "c1"} {
			releases[name]()
		}
		if l.together != 0 || len(l.held) != 0 || l.waiting.Len() != 0 {
			t.Errorf("after the end: got %d, %v, %d waiting; want none", l.together, l.held, l.waiting.Len())
		}
	})
}

func TestAcquireUntilContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimit[string](1, 1)
		release, _ := l.TryAcquire("a")
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, err = l.Acquire(ctx, "b") }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		release()
		if _, err := l.Acquire(ctx, "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("a call with a cancelled context: got error %v, want %v", err, context.Canceled)
		}
		if _, ok := l.TryAcquire("c"); !ok {
			t.Error("what the cancelled call has waited for is lost")
		}
	})
}
