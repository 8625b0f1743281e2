// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"sync"
	"time"

	"millwright.dev/pkg/phase"
)

// stoppedFor is how long it is remembered that a call was cancelled. The process that has cancelled it polls it immediately.
const stoppedFor = 10 * time.Minute

// stopped are calls that were cancelled and of which nothing runs anyway, as they only wait. The zero value is ready for use.
type stopped struct {
	mu  sync.Mutex
	ids map[phase.ID]bool
}

func (s *stopped) add(id phase.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[phase.ID]bool{}
	}
	if !s.ids[id] {
		s.ids[id] = true
		time.AfterFunc(stoppedFor, func() { s.forget(id) })
	}
}

func (s *stopped) forget(id phase.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

func (s *stopped) has(id phase.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// pollAfter grows with the time for which something is waited for: what is quick is seen quickly, and what takes long costs little.
func pollAfter(waited, least, most time.Duration) time.Duration {
	return min(max(waited/5, least), most)
}
