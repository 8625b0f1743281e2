// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// maxAddresses is the maximum number of addresses whose failures are remembered.
const maxAddresses = 4096

// Failures limits how often the clients of an address fail: each unknown token costs a request to the API server, which other clients share with it.
type Failures struct {
	burst    int
	interval time.Duration

	mu        sync.Mutex
	addresses *lru.Cache // of *failures, by netip.Prefix
}

// failures are those of one address.
type failures struct {
	// count is how many of them counted at this time.
	count float64
	at    time.Time
}

// NewFailures returns a limit. The clients of one address may fail burst times, and once more after each interval.
func NewFailures(burst int, interval time.Duration) *Failures {
	return &Failures{burst: burst, interval: interval, addresses: lru.New(maxAddresses)}
}

// Begin reports whether a request of this address may be reviewed. It counts as a failure until succeeded is called.
func (l *Failures) Begin(address netip.Prefix, now time.Time) (succeeded func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := &failures{at: now}
	if known, found := l.addresses.Get(address); found {
		of = known.(*failures)
	} else {
		l.addresses.Add(address, of)
	}
	of.count = max(of.count-float64(now.Sub(of.at))/float64(l.interval), 0)
	of.at = now
	if of.count+1 > float64(l.burst) {
		return nil, false
	}
	of.count++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.count = max(of.count-1, 0)
	}), true
}
