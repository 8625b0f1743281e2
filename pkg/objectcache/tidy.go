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

	// After adaptAfter bytes of changed objects the collector is adapted, and the memory is tidied if the cache has grown by a growthShare.
	adaptAfter  = 8 << 20
	growthShare = 4

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
		c.adapt()
		debug.FreeOSMemory()
		metrics.Read(before)
	}
}

// adapt adapts the garbage collector to the cache, and returns the size of that in bytes.
func (c *Cache) adapt() int {
	size := c.size()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent(size))
	}
	return size
}

// receive counts the bytes of an object that was added or changed. A cache that grows by events, because children are being created, would
// else double the memory in garbage until the next list.
func (c *Cache) receive(bytes int) {
	if c.received.Add(int64(bytes)) < adaptAfter {
		return
	}
	c.received.Store(0)
	c.start(func() {
		size, tidied := int64(c.adapt()), c.tidied.Load()
		if size > tidied+tidied/growthShare && c.tidied.CompareAndSwap(tidied, size) {
			c.tidy()
		}
	})
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
