// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import "sync"

// change is what has become of an object since its user was told of it last: old is nil if he knew of none, new if it is gone.
type change struct{ old, new *RawObject }

// queue holds what one user has not been told yet. It has at most one entry per object, so that a user who is slow costs memory
// for his objects only once, however often they change.
type queue struct {
	mu      sync.Mutex
	pending map[objectName]change
	order   []objectName
	// untold is how many of the objects that were there when the user became synced wait still.
	untold int
	synced chan struct{} // closed when he has been told of them all
	// problem is nil for none; told is false when the user does not know it yet.
	problem error
	told    bool

	signal chan struct{} // has an element when there may be something to tell
}

func newQueue() *queue {
	return &queue{synced: make(chan struct{}), signal: make(chan struct{}, 1), told: true}
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
	q.untold = len(q.order)
	if q.untold == 0 {
		close(q.synced)
	}
	q.wake()
}

// setProblem says what is wrong with the watch, or nil.
func (q *queue) setProblem(problem error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.problem == nil && problem == nil || q.problem != nil && problem != nil && q.problem.Error() == problem.Error() {
		return
	}
	q.problem, q.told = problem, false
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

// news is one thing to tell: a change, or that the problem is another now.
type news struct {
	change
	problem        error
	problemChanged bool
}

// pop takes out the next thing to tell.
func (q *queue) pop() (next news, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.told {
		q.told = true
		return news{problem: q.problem, problemChanged: true}, true
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

// done says that the user has been told of a change.
func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.untold > 0 {
		if q.untold--; q.untold == 0 {
			close(q.synced)
		}
	}
}
