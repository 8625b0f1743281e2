// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// world is a parent with its children and the records of its revisions, as an API server has them. A version of the parent is a number; so is a revision.
type world struct {
	*testing.T
	random *rand.Rand
	// recreates reports whether a child is changed by a recreation.
	recreates bool
	version   int
	size      int
	children  map[Child]*simulated
	records   map[int][]v1alpha1.ControllerRevisionChildren
	// recorded is whether the process that runs has written the records.
	recorded bool
	// writesLeft is how many writes the process makes before it is killed.
	writesLeft int
	// moved are the children that were changed although nothing was wrong with them, in the sync that runs.
	moved []Child
}

// simulated is a child. Its version is the one that was applied last, unless another client has changed it.
type simulated struct {
	version, applied   int
	ready, terminating bool
}

var errKilled = errors.New("killed")

func (w *world) write() error {
	if w.writesLeft == 0 {
		w.recorded = false
		return errKilled
	}
	w.writesLeft--
	return nil
}

// claimedBy returns the children that a record claims.
func claimedBy(record []v1alpha1.ControllerRevisionChildren) (claimed []Child) {
	for _, of := range record {
		for _, name := range of.Names {
			claimed = append(claimed, Child{of.APIGroup, of.Kind, name})
		}
	}
	return claimed
}

func childNamed(i int) Child { return Child{Kind: "Pod", Name: fmt.Sprintf("web-%d", i)} }

// answer is what the hook desires for a version: an odd version desires one child more.
func (w *world) answer(version int) (desired []Child) {
	for i := range w.size + version%2 {
		desired = append(desired, childNamed(i))
	}
	return desired
}

// view is what one sync observes.
type view struct {
	*world
	order    *Order
	versions []int
}

func (v view) child(i int) *simulated { return v.children[v.order.children[i]] }

func (v view) Presence(i int) Presence {
	switch child := v.child(i); {
	case child == nil:
		return Missing
	case child.terminating:
		return Terminating
	default:
		return Present
	}
}

func (v view) Matches(revision, i int) bool {
	return v.child(i).version == v.versions[revision]
}

func (v view) IsOutdated(revision, i int) bool {
	return !v.recorded && v.child(i).applied != v.versions[revision]
}

func (v view) Unready(i int) string {
	if v.child(i).ready {
		return ""
	}
	return "is not ready"
}

// sync does what the engine does in a sync.
func (w *world) sync() (State, error) {
	versions := []int{w.version}
	for _, version := range slices.Sorted(maps.Keys(w.records)) {
		if version != w.version {
			versions = append(versions, version)
		}
	}
	desired := w.answer(w.version)
	var revisions []Revision
	for _, version := range versions {
		desiredThen := w.answer(version)
		revisions = append(revisions, Revision{
			Claims: w.records[version], Desires: func(i int) bool { return slices.Contains(desiredThen, desired[i]) },
		})
	}
	order := NewOrder(desired)
	claims, v := NewClaims(revisions, order), view{w, order, versions}
	claims.Settle(v)
	state := claims.Advance(v)
	for i, record := range claims.Records() {
		if i > 0 && record.Count == 0 {
			if err := w.write(); err != nil {
				return state, err
			}
			delete(w.records, versions[i])
		} else if recorded, found := w.records[versions[i]]; !found || !reflect.DeepEqual(recorded, record.Claims) {
			if err := w.write(); err != nil {
				return state, err
			}
			w.records[versions[i]] = record.Claims
		}
	}
	w.recorded = true
	for c, child := range w.children {
		if !slices.Contains(desired, c) && !child.terminating {
			if err := w.write(); err != nil {
				return state, err
			}
			child.terminating = true
		}
	}
	w.moved = nil
	for i, c := range desired {
		if revision, claimed := claims.Of(i); claimed {
			if err := w.follow(c, versions[revision]); err != nil {
				return state, err
			}
		}
	}
	return state, nil
}

// follow brings a child to a version.
func (w *world) follow(c Child, version int) error {
	child := w.children[c]
	if child != nil && (child.terminating || child.version == version) {
		return nil
	}
	if err := w.write(); err != nil {
		return err
	}
	switch {
	case child == nil:
		w.children[c] = &simulated{version: version, applied: version}
	case w.recreates:
		child.terminating = true
	default:
		child.version, child.applied, child.ready = version, version, false
	}
	if child != nil {
		w.moved = append(w.moved, c)
	}
	return nil
}

// settle is what the rest of the cluster does: it deletes what terminates, and makes children ready, each with a probability.
func (w *world) settle(probability float64) {
	for _, c := range slices.SortedFunc(maps.Keys(w.children), Child.compare) {
		child := w.children[c]
		switch {
		case w.random.Float64() >= probability:
		case child.terminating:
			delete(w.children, c)
		default:
			child.ready = true
		}
	}
}

// updateAll is what the engine does while no child rolls: it updates all children to a version, and no record. Another process follows.
func (w *world) updateAll() {
	version := w.version + 1000
	for _, child := range w.children {
		child.version, child.applied = version, version
	}
	w.recorded = false
}

// disturb changes something, as users and other clients do.
func (w *world) disturb() {
	some := childNamed(w.random.IntN(w.size + 1))
	child := w.children[some]
	switch w.random.IntN(7) {
	case 0:
		w.version = w.random.IntN(5)
	case 1:
		w.size = 1 + w.random.IntN(6)
	case 2:
		if records := slices.Sorted(maps.Keys(w.records)); len(records) > 0 {
			delete(w.records, records[w.random.IntN(len(records))])
		}
	case 3:
		delete(w.children, some)
	case 4:
		if child != nil {
			child.ready = false
		}
	case 5:
		if child != nil {
			child.terminating = true
		}
	case 6:
		if child != nil {
			child.version = w.random.IntN(5)
		}
	}
}

// complete syncs until all children have the latest revision and are ready.
func (w *world) complete() {
	w.Helper()
	for range 100 * (w.size + 2) {
		w.writesLeft = -1
		state, err := w.sync()
		if err != nil {
			w.Fatal(err)
		}
		if w.isComplete() && state.OnLatest == state.All && state.Moved == nil {
			return
		}
		w.settle(0.7)
	}
	w.Fatalf("the rolling update does not complete: version %d, size %d, children %v, records %v", w.version, w.size, w.children, w.records)
}

func (w *world) isComplete() bool {
	desired := w.answer(w.version)
	if len(w.children) != len(desired) || len(w.records) != 1 || len(claimedBy(w.records[w.version])) != len(desired) {
		return false
	}
	for _, c := range desired {
		if child := w.children[c]; child == nil || child.version != w.version || !child.ready || child.terminating {
			return false
		}
	}
	return true
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 0))
	return &world{
		T: t, random: random, recreates: random.IntN(2) == 0, version: random.IntN(5), size: 1 + random.IntN(6),
		children: map[Child]*simulated{}, records: map[int][]v1alpha1.ControllerRevisionChildren{},
	}
}

// From every state that crashes, edits and other clients can leave, a rolling update completes.
func TestRolloutsComplete(t *testing.T) {
	for seed := range uint64(3000) {
		w := newWorld(t, seed)
		for range w.random.IntN(40) {
			w.writesLeft = w.random.IntN(6)
			if _, err := w.sync(); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.settle(0.5)
			if w.random.IntN(3) == 0 {
				w.disturb()
			}
		}
		w.complete()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// At most one child is changed at a time, whenever a process is killed, and the next one only when it is ready.
func TestOneChildAtATime(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(t, seed)
		w.complete()
		edit := func() { w.version = (w.version + 2) % 4 } // the same children
		switch seed % 4 {
		case 0:
			clear(w.records) // another client has deleted them
		case 1:
			w.updateAll()
			edit = func() { w.version += 2 } // never what is recorded already: the children of that cannot wait
		}
		edit()
		for range 200 {
			w.writesLeft = w.random.IntN(4)
			_, err := w.sync()
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			away := 0
			for _, c := range w.answer(w.version) {
				if child := w.children[c]; child == nil || child.terminating || !child.ready {
					away++
				}
			}
			if away > 1 {
				t.Fatalf("seed %d: %d children are not ready: %v", seed, away, w.children)
			}
			w.settle(0.3)
			if w.random.IntN(20) == 0 {
				edit()
			}
		}
		w.complete()
	}
}

// Whatever other clients do, a sync moves at most one child that nothing is wrong with.
func TestOneMoveInASync(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(t, seed)
		w.complete()
		w.version = (w.version + 2) % 4
		for range 60 {
			before := maps.Clone(w.children)
			intact := map[Child]bool{}
			for c, child := range before {
				for version, record := range w.records {
					if slices.Contains(claimedBy(record), c) && child.version == version && !child.terminating {
						intact[c] = true
					}
				}
			}
			w.writesLeft = -1
			if _, err := w.sync(); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, c := range w.moved {
				if intact[c] {
					n++
				}
			}
			if n > 1 {
				t.Fatalf("seed %d: %v moved in one sync", seed, w.moved)
			}
			w.settle(0.3)
			if w.random.IntN(5) == 0 {
				w.disturb()
			}
		}
	}
}
