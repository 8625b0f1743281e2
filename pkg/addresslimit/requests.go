// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net/netip"
	"sync"
)

// Requests limits how many requests the clients of an address have at a time, and all clients together.
type Requests struct {
	ofAddress, total int

	mu       sync.Mutex
	open     map[netip.Addr]int
	together int
}

// NewRequests returns a limit of requests of one address, and of all.
func NewRequests(ofAddress, total int) *Requests {
	return &Requests{ofAddress: ofAddress, total: total, open: map[netip.Addr]int{}}
}

// Begin reports whether a request of this address may be served. It counts until end is called.
func (r *Requests) Begin(address netip.Addr) (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.together == r.total || r.open[address] == r.ofAddress {
		return nil, false
	}
	r.together++
	r.open[address]++
	return sync.OnceFunc(func() { r.end(address) }), true
}

func (r *Requests) end(address netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.together--
	if r.open[address]--; r.open[address] == 0 {
		delete(r.open, address)
	}
}
