// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"container/list"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// changesPerResync is how many changed keys are popped before one resync, while both wait.
const changesPerResync = 8

// FairQueue is the order of a Loop with many groups of keys. No group may delay the others, however many keys it has, and however often
// they are resynced without a change. The rule:
//
//   - Keys that have changed come before those that wait for a resync; but after eight of them in a row, while a resync waits,
//     one resync is next. So neither kind waits forever.
//   - Within each kind the groups take turns: after its turn, a group waits until all other groups with keys had theirs. A group's own
//     keys of a kind are first in, first out.
//   - A key waits once. A resync of a key that already waits changes nothing. A key that waits for a resync and then changes moves to
//     the end of the changed keys of its group.
//
// So a changed key with n keys of its group before it, in a queue of g groups, is popped after at most g(n+1)+g(n+1)/8 others, whatever
// is added later. Each operation takes the same time, however long the queue is.
type FairQueue[K, G comparable] struct {
	group func(K) G

	mu sync.Mutex
	// hints are the urgencies of keys that will be pushed: a workqueue pushes only the key. A hint waits while its key is being synced.
	hints map[K]urgency
	// places are the positions of the waiting keys.
	places map[K]place
	lines  [2]line[K, G] // by urgency
	// row is how many changed keys were popped since a resync was popped, or since none waited.
	row int
}

var _ workqueue.Queue[string] = &FairQueue[string, string]{}

// urgency is why a key is to be synced.
type urgency int

const (
	changed urgency = iota
	resynced
)

type place struct {
	urgency urgency
	element *list.Element
}

// line are the keys of one urgency. The turn of a group is its keys, as a list.
type line[K, G comparable] struct {
	turns  list.List // of *turn[K, G]
	groups map[G]*list.Element
}

type turn[K, G comparable] struct {
	group G
	keys  list.List // of K
}

// NewFairQueue returns a queue of keys that belong to groups.
func NewFairQueue[K, G comparable](group func(K) G) *FairQueue[K, G] {
	q := &FairQueue[K, G]{group: group, hints: map[K]urgency{}, places: map[K]place{}}
	for i := range q.lines {
		q.lines[i].groups = map[G]*list.Element{}
	}
	return q
}

// hint records why the key is about to be added. A change outweighs any resync.
func (q *FairQueue[K, G]) hint(key K, u urgency) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, hinted := q.hints[key]; !hinted || u == changed {
		q.hints[key] = u
	}
}

// Push implements workqueue.Queue. A key without a hint has changed.
func (q *FairQueue[K, G]) Push(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.hints[key]
	delete(q.hints, key)
	q.places[key] = place{u, q.lines[u].push(q.group(key), key)}
}

// Touch implements workqueue.Queue: the key waits already.
func (q *FairQueue[K, G]) Touch(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, hinted := q.hints[key]
	delete(q.hints, key)
	if at := q.places[key]; hinted && u == changed && at.urgency == resynced {
		q.lines[resynced].remove(q.group(key), at.element)
		q.places[key] = place{changed, q.lines[changed].push(q.group(key), key)}
	}
}

// Len implements workqueue.Queue.
func (q *FairQueue[K, G]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.places)
}

// Pop implements workqueue.Queue. The queue must not be empty.
func (q *FairQueue[K, G]) Pop() K {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := changed
	switch {
	case q.lines[resynced].turns.Len() == 0:
		q.row = 0
	case q.lines[changed].turns.Len() == 0 || q.row == changesPerResync:
		next, q.row = resynced, 0
	default:
		q.row++
	}
	key := q.lines[next].pop()
	delete(q.places, key)
	return key
}

func (l *line[K, G]) push(group G, key K) *list.Element {
	at, found := l.groups[group]
	if !found {
		at = l.turns.PushBack(&turn[K, G]{group: group})
		l.groups[group] = at
	}
	return at.Value.(*turn[K, G]).keys.PushBack(key)
}

func (l *line[K, G]) remove(group G, element *list.Element) {
	at := l.groups[group]
	t := at.Value.(*turn[K, G])
	t.keys.Remove(element)
	if t.keys.Len() == 0 {
		l.turns.Remove(at)
		delete(l.groups, group)
	}
}

func (l *line[K, G]) pop() K {
	at := l.turns.Front()
	t := at.Value.(*turn[K, G])
	first := t.keys.Front()
	l.turns.MoveToBack(at)
	l.remove(t.group, first)
	return first.Value.(K)
}

// hintReceiver is a Queue that needs to know why a key is added.
type hintReceiver[K comparable] interface {
	hint(key K, u urgency)
}

// hintingQueue passes to its Queue why keys are added through it.
type hintingQueue[K comparable] struct {
	workqueue.TypedInterface[K]
	order   hintReceiver[K]
	urgency urgency
}

func (q *hintingQueue[K]) Add(key K) {
	q.order.hint(key, q.urgency)
	q.TypedInterface.Add(key)
}
