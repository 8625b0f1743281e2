// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
)

// turns limits how many keys are synced at a time, in all and of one namespace. A key that has to wait is queued when it has its turn: a worker does not
// wait for it.
type turns struct {
	ofNamespace, total int
	enqueue            func(...cache.ObjectName)

	mu sync.Mutex
	// held is the number of turns that a namespace has, together that of all.
	held     map[string]int
	together int
	// given are the keys that have a turn and were queued for it.
	given sets.Set[cache.ObjectName]
	// waiting are the keys without a turn, in their order.
	waiting []cache.ObjectName
}

func newTurns(ofNamespace, total int, enqueue func(...cache.ObjectName)) *turns {
	return &turns{ofNamespace: ofNamespace, total: total, enqueue: enqueue, held: map[string]int{}, given: sets.New[cache.ObjectName]()}
}

// take reports whether the key has a turn. If not, it waits for one, before all others of its namespace if it is urgent.
func (t *turns) take(key cache.ObjectName, urgent bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.given.Has(key):
		t.given.Delete(key)
		return true
	case urgent && !t.free(key.Namespace):
		t.waiting = slices.Insert(t.without(key), 0, key)
		return false
	case slices.Contains(t.waiting, key):
		return false
	case !t.free(key.Namespace):
		t.waiting = append(t.waiting, key)
		return false
	}
	t.hold(key.Namespace)
	return true
}

// end ends the turn of a key that has taken it.
func (t *turns) end(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.together--
	if t.held[key.Namespace]--; t.held[key.Namespace] == 0 {
		delete(t.held, key.Namespace)
	}
	t.give()
}

// leave gives up the turn of a key that needs none any more, or its place among those that wait.
func (t *turns) leave(key cache.ObjectName) {
	t.mu.Lock()
	given := t.given.Has(key)
	t.given.Delete(key)
	t.waiting = t.without(key)
	t.mu.Unlock()
	if given {
		t.end(key)
	}
}

// give gives what is free to those that wait: to the namespace that has the fewest turns, and to its first key.
func (t *turns) give() {
	for {
		next := -1
		for i, key := range t.waiting {
			if t.free(key.Namespace) && (next < 0 || t.held[key.Namespace] < t.held[t.waiting[next].Namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		key := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.hold(key.Namespace)
		t.given.Insert(key)
		t.enqueue(key)
	}
}

// without returns the keys that wait, without this one.
func (t *turns) without(key cache.ObjectName) []cache.ObjectName {
	return slices.DeleteFunc(t.waiting, func(waits cache.ObjectName) bool { return waits == key })
}

func (t *turns) free(namespace string) bool {
	return t.together < t.total && t.held[namespace] < t.ofNamespace
}

func (t *turns) hold(namespace string) {
	t.together++
	t.held[namespace]++
}

// smallReads is how much the start of a run may read without a turn, in bytes, besides its Blueprints.
const smallReads = 1 << 20

// errAwaitsTurn is the error of a sync that needs a turn and has none. Its key is queued when it has one.
var errAwaitsTurn = fmt.Errorf("other ActionSets have the turns of large ones: %w", controller.ErrPostponed)

// takeTurn takes a turn, unless this sync has one. If there is none, the key waits for it, and the error is errAwaitsTurn.
func (s *syncer) takeTurn() error {
	if !s.hasTurn && !s.largeSyncs.take(s.key, s.urgent) {
		return errAwaitsTurn
	}
	s.hasTurn = true
	return nil
}

// checkReads takes a turn if more than that was read.
func (s *syncer) checkReads(total int) error {
	if total <= smallReads {
		return nil
	}
	return s.takeTurn()
}

// takeTurnToRun takes a turn if the run reads many objects for its phases. Later syncs take it before they read anything.
func (s *syncer) takeTurnToRun(r *snapshot) error {
	s.memory.readsMany = referencesOfRun(r, s.key.Namespace).reads() > fewReads
	if !s.memory.readsMany {
		return nil
	}
	return s.takeTurn()
}

// endTurn ends the turn of this sync, of which err is the error. If the sync has needed none, one that the key was given, or its place among those that
// wait, is given up.
func (s *syncer) endTurn(err error) {
	switch {
	case s.hasTurn:
		s.largeSyncs.end(s.key)
	case !errors.Is(err, errAwaitsTurn):
		s.largeSyncs.leave(s.key)
	}
}
