// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// history is the log of one run: the requests of the controllers and the faults.
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

// add adds a line with the time since the start of the run.
func (h *history) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%7.3fs  ", time.Since(h.start).Seconds())+fmt.Sprintf(format, args...))
}

// wrote records the time of a write.
func (h *history) wrote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastWrite = time.Now()
}

// quietFor returns the time since the last write.
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
