// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"container/list"
	"context"
	"net/url"
	"slices"
	"sync"
	"time"
)

// hosts limits the calls to each host, over all hooks.
type hosts struct {
	perHost, waiting int

	mu    sync.Mutex
	known map[string]*host
}

// host serves the hooks of one or more tenants. Half of its slots are divided evenly among these: what a tenant does not use of its part is kept free for
// it. The other half is for those that need more, in turn. So a tenant whose hook is slow keeps none of the others waiting.
type host struct {
	name  string
	slots int
	// limit is how many calls may wait for long.
	limit int

	mu sync.Mutex
	// used is how many slots are taken, and waiting how many calls wait for one.
	used, waiting int
	// tenants are in the order in which they have their turns.
	tenants []*tenant
}

// tenant is an owner of hooks of one host.
type tenant struct {
	host  *host
	owner string

	// These are guarded by host.mu.
	hooks, used int
	// turns are the calls that wait: channels that are closed when the call has a slot.
	turns list.List
}

// join returns the tenant of the URL's host, to be left when the hook is closed.
func (h *hosts) join(u *url.URL, owner string) *tenant {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := canonicalHost(u)
	one := h.known[name]
	if one == nil {
		one = &host{name: name, slots: h.perHost, limit: h.waiting}
		h.known[name] = one
	}
	return one.join(owner)
}

// leave forgets the host with its last hook.
func (h *hosts) leave(t *tenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := t.leave(); last {
		delete(h.known, t.host.name)
	}
}

func (h *host) join(owner string) *tenant {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.tenants, func(t *tenant) bool { return t.owner == owner })
	if at < 0 {
		at = len(h.tenants)
		h.tenants = append(h.tenants, &tenant{host: h, owner: owner})
	}
	h.tenants[at].hooks++
	return h.tenants[at]
}

// leave records that a hook of the tenant was closed, and reports whether it was the last one of the host.
func (t *tenant) leave() (last bool) {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.hooks--
	t.host.changed()
	return !slices.ContainsFunc(t.host.tenants, func(other *tenant) bool { return other.hooks > 0 })
}

// shortPatience is how long a call waits for a slot when too many others already wait.
const shortPatience = 100 * time.Millisecond

// acquire waits for a slot, first in, first out among the calls of a tenant, at most as long as a call may take. A call behind too many others waits only
// shortPatience: a slow host must not hold all workers, and a fast one need not refuse a call.
func (t *tenant) acquire(ctx context.Context, patience time.Duration) error {
	waits, isLate := t.enter()
	if waits == nil {
		return nil
	}
	if isLate {
		patience = min(patience, shortPatience)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-turnOf(waits):
		return nil
	case <-timer.C:
		return t.withdraw(waits, t.host.busy())
	case <-ctx.Done():
		return t.withdraw(waits, newError(ReasonBusy, "waiting for a call to %s to end: %w", t.host.name, context.Cause(ctx)))
	}
}

// enter takes a slot, or lets the call wait for one: then its place among the turns is not nil, and isLate is whether too many calls wait before it.
func (t *tenant) enter() (waits *list.Element, isLate bool) {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.tenants, t) {
		h.tenants = append(h.tenants, t) // its last hook was closed before this call came here
	}
	if t.turns.Len() == 0 && h.mayTake(t) {
		h.take(t)
		return nil, false
	}
	waits = t.turns.PushBack(make(chan struct{}))
	h.waiting++
	return waits, h.waiting > h.limit && t.turns.Len() > h.limit/len(h.tenants)
}

// withdraw ends the wait of a call with an error, unless it has a slot now.
func (t *tenant) withdraw(waits *list.Element, err error) error {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-turnOf(waits):
		return nil
	default:
		t.turns.Remove(waits)
		h.waiting--
		h.changed()
		return err
	}
}

func turnOf(waits *list.Element) chan struct{} { return waits.Value.(chan struct{}) }

// release gives a slot back.
func (t *tenant) release() {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used--
	t.used--
	h.changed()
}

// The functions below must be called with h.mu held.

// mayTake reports whether a tenant may take a slot now.
func (h *host) mayTake(t *tenant) bool {
	free, part := h.slots-h.used, h.slots/2/len(h.tenants)
	if t.used >= part {
		for _, other := range h.tenants {
			if other != t {
				free -= max(part-other.used, 0)
			}
		}
	}
	return free > 0
}

func (h *host) take(t *tenant) {
	h.used++
	t.used++
}

// changed gives slots to calls that wait, and forgets the tenants that have gone.
func (h *host) changed() {
	for {
		next := slices.IndexFunc(h.tenants, func(t *tenant) bool { return t.turns.Len() > 0 && h.mayTake(t) })
		if next < 0 {
			break
		}
		t := h.tenants[next]
		h.take(t)
		h.waiting--
		turn := turnOf(t.turns.Front())
		t.turns.Remove(t.turns.Front())
		close(turn)
		h.tenants = append(slices.Delete(h.tenants, next, next+1), t) // its next turn is after those of the others
	}
	h.tenants = slices.DeleteFunc(h.tenants, func(t *tenant) bool { return t.hooks == 0 && t.used == 0 && t.turns.Len() == 0 })
}

func (h *host) busy() error {
	e := newError(ReasonBusy, "%d calls to %s are under way and others wait: the hook is slow for the number of its parents", h.slots, h.name)
	e.RetryAfter = probePatience
	return e
}
