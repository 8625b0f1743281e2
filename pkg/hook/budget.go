// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// allowance is how many bytes each answer has without a reservation: the answers of most hooks never wait for those of others. There are
// no more answers in flight than the caller has workers.
const allowance = 512 << 10

var (
	errTooMuch = errors.New("more than one answer may take")
	errNoRoom  = errors.New("the answers of other hooks take all memory that is set aside for answers")
)

// budget limits the bytes that all answers in flight take together: a semaphore whose users take more when they need more. Half of it is
// shared by all, first in, first out. The other half is for one answer at a time, and is as much as one answer may take: if all wait for
// each other, one can still complete, so there is no deadlock.
type budget struct {
	most int64 // of one answer, and of the lane

	mu      sync.Mutex
	free    int64
	lane    *share     // whose the lane is
	waiting *list.List // of *claim
}

// share is the part of a budget that one answer has. Only one goroutine uses it at a time.
type share struct {
	budget *budget
	needed int64 // the allowance included
	held   int64 // of what is free for all
}

// claim is a share that waits for more bytes.
type claim struct {
	share *share
	met   chan struct{}
}

func newBudget(total int64) *budget {
	return &budget{most: total / 2, free: total - total/2, waiting: list.New()}
}

func (b *budget) share() *share { return &share{budget: b} }

// grow takes n more bytes, and waits until they are free. The share is unchanged after an error: errTooMuch, or errNoRoom if the patience or
// the context ended before.
func (s *share) grow(ctx context.Context, n int64, patience time.Duration) error {
	b := s.budget
	b.mu.Lock()
	if s.needed+n > b.most {
		b.mu.Unlock()
		return errTooMuch
	}
	s.needed += n
	if s.missing() <= 0 { // of what others wait for it takes nothing
		b.mu.Unlock()
		return nil
	}
	waits := claim{share: s, met: make(chan struct{})}
	element := b.waiting.PushBack(&waits)
	b.serve()
	b.mu.Unlock()
	select {
	case <-waits.met:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-waits.met:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-waits.met:
		return nil
	default:
	}
	b.waiting.Remove(element)
	s.needed -= n
	b.serve() // the next one may need less
	return errNoRoom
}

// shrink releases n bytes.
func (s *share) shrink(n int64) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.needed -= n
	if spare := min(-s.missing(), s.held); spare > 0 {
		s.held -= spare
		b.free += spare
	}
	b.serve()
}

// release releases all bytes. The share can be used again.
func (s *share) release() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += s.held
	s.needed, s.held = 0, 0
	if b.lane == s {
		b.lane = nil
	}
	b.serve()
}

// missing returns how many bytes a share needs from the shared half; it is negative if the share has more than it needs.
func (s *share) missing() int64 {
	if s.budget.lane == s {
		return 0
	}
	return max(s.needed-allowance, 0) - s.held
}

// serve gives bytes to claims in their order, as far as there are free ones.
func (b *budget) serve() {
	for element := b.waiting.Front(); element != nil; element = b.waiting.Front() {
		first := element.Value.(*claim)
		switch missing := first.share.missing(); {
		case missing <= b.free:
			b.free -= missing
			first.share.held += missing
		case b.lane == nil:
			b.lane = first.share
			b.free += first.share.held
			first.share.held = 0
		default:
			return
		}
		b.waiting.Remove(element)
		close(first.met)
	}
}
