// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// history is what the controllers of one run asked for, and what was done to them.
type history struct {
	mu        sync.Mutex
	start     time.Time
	lines     []string
	lastWrite time.Time
}

func newHistory() *history {
	now := time.Now()
	return &history{start: now, lastWrite: now}
}

// add a line to the history.
func (h *history) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%7.3fs  ", time.Since(h.start).Seconds())+fmt.Sprintf(format, args...))
}

// wrote notes that a write was just made.
func (h *history) wrote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastWrite = time.Now()
}

// quietFor tells since when no write was made.
func (h *history) quietFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.lastWrite)
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}
