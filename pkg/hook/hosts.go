// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// hosts limits the calls to each host, over all hooks.
type hosts struct {
	perHost, waiting int

	mu    sync.Mutex
	known map[string]*host
}

// host serves one or more hooks.
type host struct {
	name    string
	users   int // hooks, guarded by hosts.mu
	slots   chan struct{}
	waiting atomic.Int32
	limit   int32
}

// join returns the host of the URL, to be left when the hook is closed.
func (h *hosts) join(u *url.URL) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := canonicalHost(u)
	one := h.known[name]
	if one == nil {
		one = &host{name: name, slots: make(chan struct{}, h.perHost), limit: int32(h.waiting)}
		h.known[name] = one
	}
	one.users++
	return one
}

// leave forgets the host with its last hook.
func (h *hosts) leave(one *host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(h.known, one.name)
	}
}

// shortPatience is how long a call waits for a slot when too many others already wait.
const shortPatience = 100 * time.Millisecond

// acquire waits for a slot, first in, first out, at most as long as a call may take. A call behind too many others waits only
// shortPatience: a slow host must not hold all workers, and a fast one need not refuse a call.
func (h *host) acquire(ctx context.Context, patience time.Duration) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	if h.waiting.Add(1) > h.limit {
		patience = min(patience, shortPatience)
	}
	defer h.waiting.Add(-1)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return h.busy()
	case <-ctx.Done():
		return newError(ReasonBusy, "waiting for a call to %s to end: %w", h.name, context.Cause(ctx))
	}
}

func (h *host) release() { <-h.slots }

func (h *host) busy() error {
	e := newError(ReasonBusy, "%d calls to %s are under way and others wait: the hook is slow for the number of its parents", cap(h.slots), h.name)
	e.RetryAfter = probePatience
	return e
}
