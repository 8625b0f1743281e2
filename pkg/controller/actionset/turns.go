// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/inflight"
)

// maxOfTurns is how much of a CPU of the API server the syncs with turns may take together, over time, except for those that stop a run.
const maxOfTurns = 0.25

// turns limits how many keys are synced at a time, in all and of one namespace, and how much of the API server they take. A key that has to wait is queued when
// it has its turn: a worker does not wait for it.
type turns struct {
	ofNamespace, total int
	enqueue            func(...cache.ObjectName)

	mu sync.Mutex
	// held is the number of turns that a namespace has, together that of all.
	held     map[string]int
	together int
	// given are the keys that have a turn and were queued for it.
	given sets.Set[cache.ObjectName]
	// waiting are the keys without a turn, those of each namespace in their order. The unpaid ones do not wait until earlier syncs are paid.
	waiting []cache.ObjectName
	unpaid  sets.Set[cache.ObjectName]
	// cpu is what the syncs with turns may take of the API server.
	cpu *inflight.CPU
	// timer gives turns when earlier syncs are paid; nil if none has to wait for that.
	timer *time.Timer
}

func newTurns(ofNamespace, total int, enqueue func(...cache.ObjectName)) *turns {
	return &turns{
		ofNamespace: ofNamespace, total: total, enqueue: enqueue, held: map[string]int{},
		given: sets.New[cache.ObjectName](), unpaid: sets.New[cache.ObjectName](), cpu: inflight.NewCPU(maxOfTurns),
	}
}

// urgency is how long a key has to wait for its turn.
type urgency int

const (
	// inOrder: until it is the first of its namespace, and earlier syncs are paid.
	inOrder urgency = iota
	// goesFirst: as inOrder, but before all others of its namespace.
	goesFirst
	// goesUnpaid: before all others, too, and it does not wait until earlier syncs are paid.
	goesUnpaid
)

// take reports whether the key has a turn. If not, it waits for one.
func (t *turns) take(key cache.ObjectName, u urgency) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest, waits := t.cpu.Wait(), slices.Contains(t.waiting, key)
	switch {
	case t.given.Has(key):
		t.given.Delete(key)
		return true
	case t.free(key.Namespace) && (u == goesUnpaid || rest == 0 && !waits):
		t.remove(key)
		t.hold(key.Namespace)
		return true
	case u != inOrder:
		t.remove(key)
		t.waiting = slices.Insert(t.waiting, 0, key)
		if u == goesUnpaid {
			t.unpaid.Insert(key)
		}
	case !waits:
		t.waiting = append(t.waiting, key)
	}
	t.giveIn(rest)
	return false
}

// end ends the turn of a key that has taken it.
func (t *turns) end(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(key.Namespace)
}

// leave gives up the turn of a key that needs none any more, or its place among those that wait.
func (t *turns) leave(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(key)
	if t.given.Has(key) {
		t.given.Delete(key)
		t.release(key.Namespace)
	}
}

// give gives what is free to those that wait: to the namespace that has the fewest turns, and to its first key. The other keys of that namespace go behind
// those of all others.
func (t *turns) give() {
	rest := t.cpu.Wait()
	for {
		first := -1
		for i, key := range t.waiting {
			if t.free(key.Namespace) && (rest == 0 || t.unpaid.Has(key)) && (first < 0 || t.held[key.Namespace] < t.held[t.waiting[first].Namespace]) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		key := t.waiting[first]
		t.remove(key)
		t.waiting = lastOf(t.waiting, key.Namespace)
		t.hold(key.Namespace)
		t.given.Insert(key)
		t.enqueue(key)
	}
	t.giveIn(rest)
}

// giveIn gives turns when earlier syncs are paid, after that time, if any key may wait for that.
func (t *turns) giveIn(rest time.Duration) {
	if rest == 0 || len(t.waiting) == 0 || t.timer != nil {
		return
	}
	t.timer = time.AfterFunc(rest, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.timer = nil
		t.give()
	})
}

// remove removes a key from those that wait.
func (t *turns) remove(key cache.ObjectName) {
	t.unpaid.Delete(key)
	t.waiting = slices.DeleteFunc(t.waiting, func(waits cache.ObjectName) bool { return waits == key })
}

// lastOf returns the keys with those of the namespace at the end.
func lastOf(keys []cache.ObjectName, namespace string) []cache.ObjectName {
	own := slices.DeleteFunc(slices.Clone(keys), func(key cache.ObjectName) bool { return key.Namespace != namespace })
	others := slices.DeleteFunc(keys, func(key cache.ObjectName) bool { return key.Namespace == namespace })
	return append(others, own...)
}

func (t *turns) free(namespace string) bool {
	return t.together < t.total && t.held[namespace] < t.ofNamespace
}

func (t *turns) hold(namespace string) {
	t.together++
	t.held[namespace]++
}

func (t *turns) release(namespace string) {
	t.together--
	if t.held[namespace]--; t.held[namespace] == 0 {
		delete(t.held, namespace)
	}
	t.give()
}

// smallReads is how much the start of a run may read without a turn, in bytes, besides its Blueprints.
const smallReads = 1 << 20

// errAwaitsTurn is the error of a sync that needs a turn and has none. Its key is queued when it has one.
var errAwaitsTurn = fmt.Errorf("other large ActionSets have their turns first: %w", controller.ErrPostponed)

// takeTurn takes a turn, unless this sync has one. If there is none, the key waits for it, and the error is errAwaitsTurn.
func (s *syncer) takeTurn() error {
	if !s.hasTurn && !s.largeSyncs.take(s.key, s.urgency) {
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
		if s.urgency != goesUnpaid {
			s.largeSyncs.cpu.Take(s.asked.CPU())
		}
		s.largeSyncs.end(s.key)
	case !errors.Is(err, errAwaitsTurn):
		s.largeSyncs.leave(s.key)
	}
}
