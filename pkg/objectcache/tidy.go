// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"os"
	"runtime/debug"
	"time"
)

const (
	// tidyFrom is how many objects a list must have had for it to be worth while.
	tidyFrom = 1000
	// tidyDelay lets the lists of several resources be tidied up after at once.
	tidyDelay = 2 * time.Second

	// gcHeadroom is how much garbage may come together, in bytes, before the collector looks. By default it waits for as much as all that
	// lives, which beside a large cache is most of the memory of the process; but the less it may wait, the more it works.
	gcHeadroom   = 48 << 20
	minGCPercent = 25
	maxGCPercent = 100
)

// tidy makes the process take no more memory than what the cache holds now needs, some time after that has changed much: it gives back what
// reading a list took beside the objects, and adapts the garbage collector, unless the environment says how that is to work. Few of the
// objects have pointers to follow: to look more often is cheap.
func (c *Cache) tidy() {
	if !c.tidying.CompareAndSwap(false, true) {
		return
	}
	c.start(func() {
		defer c.tidying.Store(false)
		select {
		case <-c.ctx.Done():
		case <-time.After(tidyDelay):
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent(c.size()))
			}
			debug.FreeOSMemory()
		}
	})
}

// gcPercent is how much garbage may come together beside a cache of that many bytes, in percent of all that lives.
func gcPercent(bytes int) int {
	return min(max(gcHeadroom*100/max(bytes, 1), minGCPercent), maxGCPercent)
}

// size is how many bytes of JSON the cache holds.
func (c *Cache) size() (bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.feeds {
		f.mu.RLock()
		f.objects.each("", func(o *RawObject) { bytes += len(o.JSON()) })
		f.mu.RUnlock()
	}
	return bytes
}
