// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// tidyFrom is the number of objects in a list from which tidying is useful.
	tidyFrom = 1000
	// After a change the memory is checked every tidyDelay, until nothing has happened in between, at most tidyRounds times: a list of many
	// objects causes more work.
	tidyDelay  = 2 * time.Second
	tidyRounds = 15

	// gcHeadroom is how much garbage may accumulate, in bytes, before the collector runs. By default that is as much as the live heap, which
	// with a large cache is most of the memory of the process; but with less headroom the collector works more.
	gcHeadroom   = 32 << 20
	minGCPercent = 20
	maxGCPercent = 100

	// collections is the runtime's number of garbage collections that were not forced.
	collections = "/gc/cycles/automatic:gc-cycles"
)

// tidy reduces the memory of the process to what the cache needs, after it has changed much: it returns the memory that reading a list took in
// addition to the objects, and adapts the garbage collector, unless the environment configures that. Few objects have pointers, so more
// frequent collections are cheap.
func (c *Cache) tidy() {
	if c.tidying.CompareAndSwap(false, true) {
		c.start(func() {
			defer c.tidying.Store(false)
			c.tidyUntilQuiet()
		})
	}
}

func (c *Cache) tidyUntilQuiet() {
	before := []metrics.Sample{{Name: collections}}
	now := []metrics.Sample{{Name: collections}}
	for round := range tidyRounds {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(tidyDelay):
		}
		if metrics.Read(now); round > 0 && now[0].Value.Uint64() == before[0].Value.Uint64() {
			return
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent(c.size()))
		}
		debug.FreeOSMemory()
		metrics.Read(before)
	}
}

// gcPercent is how much garbage may accumulate with a cache of that size in bytes, in percent of all that lives.
func gcPercent(bytes int) int {
	return min(max(gcHeadroom*100/max(bytes, 1), minGCPercent), maxGCPercent)
}

// size is the number of bytes of JSON in the cache.
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
