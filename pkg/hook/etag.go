// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// ETag lets a hook answer 304 to a request whose answer would be as before.
type ETag struct {
	// CacheTimeout is how long an answer may be reused. Zero or less: without a limit.
	CacheTimeout time.Duration
	// CacheCleanup is how often answers past that are thrown away. Zero or less: as often as they get too old.
	CacheCleanup time.Duration
}

// etagCache keeps the answers of one hook that came with an ETag, by what they are about.
type etagCache struct {
	timeout, cleanup time.Duration
	// room is how many bytes are left for the answers of all hooks.
	room *atomic.Int64

	mu      sync.Mutex
	entries map[string]*list.Element // of *etagEntry
	used    *list.List               // the latest first
	closed  bool
	cleaned time.Time
}

type etagEntry struct {
	key, etag string
	answer    Answer
	stored    time.Time
}

// size of an entry in memory, in bytes.
func (e *etagEntry) size() int64 { return int64(len(e.key)+len(e.etag)+len(e.answer.Body)) + 256 }

// newETagCache makes a cache that takes of the room, which it shares with others.
func newETagCache(config ETag, room *atomic.Int64) *etagCache {
	cache := &etagCache{timeout: config.CacheTimeout, cleanup: config.CacheCleanup, room: room, entries: map[string]*list.Element{}, used: list.New(),
		cleaned: time.Now()}
	if cache.cleanup <= 0 {
		cache.cleanup = cache.timeout
	}
	return cache
}

// get returns the entry, nil if there is none that may be reused.
func (c *etagCache) get(key string) *etagEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		return nil
	}
	entry := element.Value.(*etagEntry)
	if c.expired(entry, time.Now()) {
		c.remove(element)
		return nil
	}
	c.used.MoveToFront(element)
	return entry
}

// put keeps an answer, and makes room for it among those that are too old or were not used for longest.
func (c *etagCache) put(key, etag string, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if element := c.entries[key]; element != nil {
		c.remove(element)
	}
	if c.timeout > 0 && now.Sub(c.cleaned) >= c.cleanup {
		c.cleaned = now
		for _, element := range c.entries {
			if c.expired(element.Value.(*etagEntry), now) {
				c.remove(element)
			}
		}
	}
	if c.closed {
		return
	}
	entry := &etagEntry{key: key, etag: etag, answer: answer, stored: now}
	c.entries[key] = c.used.PushFront(entry)
	left := c.room.Add(-entry.size())
	for left < 0 && c.used.Len() > 0 { // its own answers go, not those of other hooks
		c.remove(c.used.Back())
		left = c.room.Load()
	}
}

// forget drops the answer about something that has gone.
func (c *etagCache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[key]; element != nil {
		c.remove(element)
	}
}

func (c *etagCache) expired(entry *etagEntry, now time.Time) bool {
	return c.timeout > 0 && now.Sub(entry.stored) >= c.timeout
}

func (c *etagCache) remove(element *list.Element) {
	entry := c.used.Remove(element).(*etagEntry)
	delete(c.entries, entry.key)
	c.room.Add(entry.size())
}

// close forgets all answers, and keeps none any more.
func (c *etagCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.used.Len() > 0 {
		c.remove(c.used.Back())
	}
}
