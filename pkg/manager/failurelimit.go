// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

const (
	// maxFailures is how often the clients of one address may fail in a burst, and failureInterval is the time after which one failure no longer counts.
	maxFailures     = 10
	failureInterval = time.Second
	// maxAddresses is the maximum number of addresses whose failures are remembered.
	maxAddresses = 4096
	// ipv6Network is the part of an IPv6 address that is compared, in bits: a host may have all addresses of such a network.
	ipv6Network = 64
)

// failureLimit limits how often the clients of an address fail: each unknown token costs a request to the API server, which the controllers of this process
// share with it.
type failureLimit struct {
	mu        sync.Mutex
	addresses *lru.Cache // of *failures, by netip.Prefix
}

// failures are those of one address.
type failures struct {
	// count is how many of them counted at this time.
	count float64
	at    time.Time
}

func newFailureLimit() *failureLimit { return &failureLimit{addresses: lru.New(maxAddresses)} }

// begin reports whether a client of this address may be reviewed. It counts as a failure until succeeded is called.
func (l *failureLimit) begin(address netip.Prefix, now time.Time) (succeeded func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := &failures{at: now}
	if known, found := l.addresses.Get(address); found {
		of = known.(*failures)
	} else {
		l.addresses.Add(address, of)
	}
	of.count = max(of.count-float64(now.Sub(of.at))/float64(failureInterval), 0)
	of.at = now
	if of.count+1 > maxFailures {
		return nil, false
	}
	of.count++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.count = max(of.count-1, 0)
	}, true
}

// addressOf returns the network that a request comes from. Requests whose address is not known share one.
func addressOf(req *http.Request) netip.Prefix {
	host, _, _ := net.SplitHostPort(req.RemoteAddr)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = ipv6Network
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
