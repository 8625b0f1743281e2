// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import "sync"

// change is what has become of an object since the last notification of its user: old is nil if there was none, new if it is gone.
type change struct{ old, new *RawObject }

// queue holds the notifications that wait for one user. It has at most one entry per object, so that a user who is slow costs memory
// for his objects only once, however often they change.
type queue struct {
	mu      sync.Mutex
	pending map[objectName]change
	order   []objectName
	// waiting is how many of the objects that were there when the user became synced wait still.
	waiting int
	synced  chan struct{} // closed when the user was notified of them all
	// announce is set from then on, until the user was notified of that.
	announce bool
	// problem is nil for none; notified is false until the user was notified of it.
	problem  error
	notified bool

	signal chan struct{} // has an element when there may be a notification
}

func newQueue() *queue {
	return &queue{synced: make(chan struct{}), signal: make(chan struct{}, 1), notified: true}
}

// push adds a change.
func (q *queue) push(old, new *RawObject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(old, new)
	q.wake()
}

func (q *queue) add(old, new *RawObject) {
	at := new
	if at == nil {
		at = old
	}
	if q.pending == nil {
		q.pending = map[objectName]change{}
	}
	name := nameOf(at)
	waiting, exists := q.pending[name]
	if exists {
		old = waiting.old
		delete(q.pending, name) // the map would else keep the name of a version that is not needed
	} else {
		q.order = append(q.order, name)
	}
	q.pending[name] = change{old, new}
}

// begin adds all that is there when the user's watch has its first state.
func (q *queue) begin(objects []*RawObject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range objects {
		q.add(nil, o)
	}
	q.waiting = len(q.order)
	if q.waiting == 0 {
		q.complete()
	}
	q.wake()
}

func (q *queue) complete() {
	q.announce = true
	close(q.synced)
}

// setProblem sets what is wrong with the watch, or nil.
func (q *queue) setProblem(problem error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.problem == nil && problem == nil || q.problem != nil && problem != nil && q.problem.Error() == problem.Error() {
		return
	}
	q.problem, q.notified = problem, false
	q.wake()
}

func (q *queue) currentProblem() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.problem
}

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// news is one notification: a change, another problem, or that the user is synced.
type news struct {
	change
	problem        error
	problemChanged bool
	synced         bool
}

// pop takes out the next notification.
func (q *queue) pop() (next news, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.notified {
		q.notified = true
		return news{problem: q.problem, problemChanged: true}, true
	}
	if q.announce {
		q.announce = false
		return news{synced: true}, true
	}
	if len(q.order) == 0 {
		q.order, q.pending = nil, nil // a map never shrinks
		return news{}, false
	}
	name := q.order[0]
	q.order[0] = objectName{} // it would else keep the object's text
	q.order = q.order[1:]
	next.change = q.pending[name]
	delete(q.pending, name)
	return next, true
}

// done records that the user was notified of a change.
func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting > 0 {
		if q.waiting--; q.waiting == 0 {
			q.complete()
		}
	}
}
