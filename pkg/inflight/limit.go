// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inflight limits how many of something there are at a time, such as requests or streams: in all, and for one key, such as an address or a
// namespace.
package inflight

import (
	"container/list"
	"context"
	"sync"
)

// Limit is a semaphore of which one key can have a part only.
type Limit[K comparable] struct {
	ofKey, total int

	mu       sync.Mutex
	held     map[K]int
	together int
	waiting  *list.List // of *waiter[K]
}

// waiter is a call of Acquire that waits.
type waiter[K comparable] struct {
	key      K
	acquired chan struct{}
}

// NewLimit returns a limit for one key, and for all keys together.
func NewLimit[K comparable](ofKey, total int) *Limit[K] {
	return &Limit[K]{ofKey: ofKey, total: total, held: map[K]int{}, waiting: list.New()}
}

// NewTotalLimit returns a limit without keys.
func NewTotalLimit(total int) *Limit[struct{}] { return NewLimit[struct{}](total, total) }

// TryAcquire acquires one unit for the key, if there is one. It does not overtake a call of Acquire that could have the unit.
func (l *Limit[K]) TryAcquire(key K) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.free(key) {
		return nil, false
	}
	l.acquire(key)
	return l.releaser(key), true
}

// Acquire acquires one unit for the key, and waits until there is one: first in, first out among those whose key is not at its limit. It returns
// the error of the context if that has ended, or ends before.
func (l *Limit[K]) Acquire(ctx context.Context, key K) (release func(), _ error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.free(key) {
		defer l.mu.Unlock()
		l.acquire(key)
		return l.releaser(key), nil
	}
	w := &waiter[K]{key, make(chan struct{})}
	element := l.waiting.PushBack(w)
	l.mu.Unlock()
	select {
	case <-w.acquired:
		return l.releaser(key), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.acquired:
		return l.releaser(key), nil
	default:
		l.waiting.Remove(element)
		return nil, ctx.Err()
	}
}

func (l *Limit[K]) free(key K) bool { return l.together < l.total && l.held[key] < l.ofKey }

func (l *Limit[K]) acquire(key K) {
	l.together++
	l.held[key]++
}

// releaser returns a function that releases one unit, once.
func (l *Limit[K]) releaser(key K) func() {
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.together--
		if l.held[key]--; l.held[key] == 0 {
			delete(l.held, key)
		}
		l.serve()
	})
}

// serve gives what is free to those that wait.
func (l *Limit[K]) serve() {
	for element := l.waiting.Front(); element != nil && l.together < l.total; {
		next := element.Next()
		if w := element.Value.(*waiter[K]); l.free(w.key) {
			l.waiting.Remove(element)
			l.acquire(w.key)
			close(w.acquired)
		}
		element = next
	}
}
