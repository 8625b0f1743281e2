// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"sync"

	"millwright.dev/pkg/inflight"
)

// errForgotten means that a command does not read any more.
var errForgotten = errors.New("the command is forgotten")

// place is the place of one command among those that have large outputs. It is taken when the outputs become large, and released when they are no longer
// in memory: not before, so that commands cannot wait for each other. Methods may be called concurrently.
type place struct {
	limit     *inflight.Limit[string]
	namespace string
	// waits is called with true before take waits, and with false afterwards.
	waits func(bool)
	// taking has a token while a call of take waits.
	taking chan struct{}

	mu sync.Mutex
	// free releases the place; nil if it is not taken.
	free     func()
	released bool
}

func newPlace(limit *inflight.Limit[string], namespace string, waits func(bool)) *place {
	return &place{limit: limit, namespace: namespace, waits: waits, taking: make(chan struct{}, 1)}
}

// take takes the place, unless it was taken before. It waits until there is one, or the context ends.
func (p *place) take(ctx context.Context) error {
	select {
	case p.taking <- struct{}{}:
		defer func() { <-p.taking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if taken, err := p.tryTake(); taken || err != nil {
		return err
	}
	p.waits(true)
	free, err := p.limit.Acquire(ctx, p.namespace)
	p.waits(false)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		free()
		return errForgotten
	}
	p.free = free
	return nil
}

func (p *place) tryTake() (taken bool, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.released:
		return false, errForgotten
	case p.free == nil:
		p.free, taken = p.limit.TryAcquire(p.namespace)
		return taken, nil
	default:
		return true, nil
	}
}

// release releases the place. It cannot be taken any more.
func (p *place) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		p.free()
	}
	p.free, p.released = nil, true
}
