// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import (
	"sync/atomic"
	"time"
)

// minDiscoveryLag and maxDiscoveryLag are when the API server is asked again, at first and at last, after a definition has changed.
const minDiscoveryLag, maxDiscoveryLag = 2 * time.Second, 30 * time.Second

// lag is when to ask the API server again after a definition has changed: of several API servers each follows by itself.
type lag struct {
	// Pointer is when a definition changed last, nil for never. It is safe for concurrent use.
	atomic.Pointer[time.Time]
	// of is the change after which the API server is asked again, and askAt when.
	of    *time.Time
	askAt time.Time
}

// next reports whether the API server is to be asked again because it may not have followed yet, and when next, 0 for never.
func (l *lag) next(now time.Time) (again time.Duration, ask bool) {
	changed := l.Load()
	if changed == nil {
		return 0, false
	}
	if l.of != changed {
		l.of, l.askAt = changed, now.Add(minDiscoveryLag)
	}
	if wait := l.askAt.Sub(now); wait > 0 {
		return wait, false
	}
	passed := now.Sub(*changed)
	if passed >= maxDiscoveryLag {
		l.CompareAndSwap(changed, nil)
		return 0, true
	}
	again = max(passed, minDiscoveryLag)
	l.askAt = now.Add(again)
	return again, true
}
