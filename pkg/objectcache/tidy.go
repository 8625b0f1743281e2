// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"runtime/debug"
	"time"
)

const (
	// tidyFrom is how many objects a list must have had for it to be worth while.
	tidyFrom = 1000
	// tidyDelay lets the lists of several resources be tidied up after at once.
	tidyDelay = 2 * time.Second
)

// tidy gives back to the system what reading a list took beside the objects. The runtime would keep as much again as all that the cache
// holds, and few of its objects have pointers to follow: it is cheap to look.
func (c *Cache) tidy(objects int) {
	if objects < tidyFrom || !c.tidying.CompareAndSwap(false, true) {
		return
	}
	c.start(func() {
		defer c.tidying.Store(false)
		select {
		case <-c.ctx.Done():
		case <-time.After(tidyDelay):
			debug.FreeOSMemory()
		}
	})
}
