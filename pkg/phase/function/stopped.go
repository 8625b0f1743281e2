// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"sync"
	"time"

	"millwright.dev/pkg/phase"
)

// stoppedFor is how long a cancelled call is remembered. The process that has cancelled it polls it immediately.
const stoppedFor = 10 * time.Minute

// stoppedCalls remembers cancelled calls of functions that only wait, so that nothing has to be stopped. The zero value is ready for use.
type stoppedCalls struct {
	mu  sync.Mutex
	ids map[phase.ID]bool
}

func (s *stoppedCalls) add(id phase.ID) {
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

func (s *stoppedCalls) forget(id phase.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

func (s *stoppedCalls) has(id phase.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// pollAfter returns the delay of the next poll. It grows with the time that the phase has waited: a quick change is observed quickly, and a long
// wait costs few requests.
func pollAfter(waited, least, most time.Duration) time.Duration {
	return min(max(waited/5, least), most)
}
