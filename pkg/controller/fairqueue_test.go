// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// groupOf is the part of the key before the slash.
func groupOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

// lineUp pushes keys as a workqueue does: a change, or after a tilde a resync.
func lineUp(q *FairQueue[string, string], keys ...string) {
	for _, key := range keys {
		u := changed
		if strings.HasPrefix(key, "~") {
			key, u = key[1:], resynced
		}
		q.hint(key, u)
		if _, waits := q.places[key]; waits {
			q.Touch(key)
		} else {
			q.Push(key)
		}
	}
}

func popped(q *FairQueue[string, string]) (keys []string) {
	for q.Len() > 0 {
		keys = append(keys, q.Pop())
	}
	return keys
}

func TestTheOrderOfAFairQueue(t *testing.T) {
	for name, test := range map[string]struct{ pushed, want string }{
		"groups take turns, in whatever order keys come":      {"a/1 a/2 a/3 b/1 c/1 b/2", "a/1 b/1 c/1 a/2 b/2 a/3"},
		"changes come before resyncs":                         {"~a/1 ~b/1 a/2 b/2", "a/2 b/2 a/1 b/1"},
		"resyncs take turns too":                              {"~a/1 ~a/2 ~a/3 ~b/1", "a/1 b/1 a/2 a/3"},
		"a key that waits for a resync and changes moves up":  {"~a/1 ~a/2 ~b/1 a/2", "a/2 a/1 b/1"},
		"a resync of a key that has changed alters nothing":   {"a/1 a/2 ~a/1", "a/1 a/2"},
		"a key that changes twice keeps its place":            {"a/1 a/2 a/1", "a/1 a/2"},
		"after eight changes in a row one resync gets a turn": {"~r/1 ~r/2 c/1 c/2 c/3 c/4 c/5 c/6 c/7 c/8 c/9", "c/1 c/2 c/3 c/4 c/5 c/6 c/7 c/8 r/1 c/9 r/2"},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewFairQueue(groupOf)
			lineUp(q, strings.Fields(test.pushed)...)
			if diff := cmp.Diff(strings.Fields(test.want), popped(q)); diff != "" {
				t.Errorf("popped in another order (-want +got):\n%s", diff)
			}
			if len(q.hints) > 0 || len(q.lines[changed].groups) > 0 || len(q.lines[resynced].groups) > 0 {
				t.Errorf("an empty queue remembers: %v %v", q.hints, q.lines)
			}
		})
	}
}

func TestLargeGroupDelaysOthersByOneKey(t *testing.T) {
	q := NewFairQueue(groupOf)
	for i := range 10_000 {
		lineUp(q, fmt.Sprintf("big/%d", i), fmt.Sprintf("~other/%d", i))
	}
	lineUp(q, "small/1")
	for range 2 {
		if q.Pop() == "small/1" {
			return
		}
	}
	t.Error("the key of the small group is not among the first two")
}

// model is a FairQueue by its rule alone, without regard to time.
type model struct {
	waiting [2][]string // by urgency, in the order of arrival
	turns   [2][]string // groups that have keys, the next one first
	row     int
}

func (m *model) add(key string, u urgency) {
	if slices.Contains(m.waiting[changed], key) || u == resynced && slices.Contains(m.waiting[resynced], key) {
		return
	}
	m.remove(key, resynced)
	m.waiting[u] = append(m.waiting[u], key)
	if !slices.Contains(m.turns[u], groupOf(key)) {
		m.turns[u] = append(m.turns[u], groupOf(key))
	}
}

func (m *model) remove(key string, u urgency) {
	m.waiting[u] = slices.DeleteFunc(m.waiting[u], func(k string) bool { return k == key })
	m.turns[u] = slices.DeleteFunc(m.turns[u], func(group string) bool {
		return !slices.ContainsFunc(m.waiting[u], func(k string) bool { return groupOf(k) == group })
	})
}

func (m *model) pop() string {
	u := changed
	if len(m.waiting[resynced]) > 0 && (len(m.waiting[changed]) == 0 || m.row == 8) {
		u = resynced
	}
	if m.row++; u == resynced || len(m.waiting[resynced]) == 0 {
		m.row = 0
	}
	group := m.turns[u][0]
	m.turns[u] = append(m.turns[u][1:], group)
	key := m.waiting[u][slices.IndexFunc(m.waiting[u], func(k string) bool { return groupOf(k) == group })]
	m.remove(key, u)
	return key
}

func TestAFairQueueIsItsModelWhateverHappens(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		q, m := NewFairQueue(groupOf), &model{}
		for step := range 400 {
			if random.IntN(5) < 2 && q.Len() > 0 {
				if want, got := m.pop(), q.Pop(); want != got {
					t.Fatalf("seed %d, step %d: popped %s, want %s", seed, step, got, want)
				}
				continue
			}
			key, u := fmt.Sprintf("%d/%d", random.IntN(5), random.IntN(12)), urgency(random.IntN(2))
			m.add(key, u)
			lineUp(q, strings.Repeat("~", int(u))+key)
			if want := len(m.waiting[changed]) + len(m.waiting[resynced]); q.Len() != want {
				t.Fatalf("seed %d, step %d: %d keys wait, want %d", seed, step, q.Len(), want)
			}
		}
	}
}

func TestLoopWithFairQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		var order []string
		var loop *Loop[string]
		loop = NewLoop(ctx, Config[string]{Name: "fair", Queue: NewFairQueue(groupOf), Sync: func(_ context.Context, key string) (time.Duration, error) {
			order = append(order, key)
			if len(order) == 1 {
				// While a key is worked on, a resync of it is asked for, and then it changes: that counts.
				loop.EnqueueResync(key, "a/resync", "b/resync")
				loop.Enqueue(key, "a/changed")
			}
			return 0, nil
		}})
		loop.Enqueue("a/first")
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		synctest.Wait()
		want := []string{"a/first", "a/changed", "a/first", "a/resync", "b/resync"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("synced in another order (-want +got):\n%s", diff)
		}
	})
}

func TestRequeueIsAResyncAndRetryIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		var order []string
		var loop *Loop[string]
		loop = NewLoop(ctx, Config[string]{Name: "later", Queue: NewFairQueue(groupOf), Sync: func(_ context.Context, key string) (time.Duration, error) {
			order = append(order, key)
			switch {
			case key == "a/again" && len(order) == 1:
				return minRetryDelay / 2, nil
			case key == "a/failing" && len(order) == 2:
				return 0, errors.New("not yet")
			case key == "a/busy":
				time.Sleep(time.Second) // meanwhile both become due
				loop.Enqueue("a/changed")
			}
			return 0, nil
		}})
		loop.Enqueue("a/again", "a/failing", "a/busy")
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"a/again", "a/failing", "a/busy", "a/failing", "a/changed", "a/again"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("synced in another order (-want +got):\n%s", diff)
		}
	})
}

func TestALoopWithoutAFairQueueResyncsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		var order []string
		loop := NewLoop(ctx, Config[string]{Name: "plain", Sync: func(_ context.Context, key string) (time.Duration, error) {
			order = append(order, key)
			return 0, nil
		}})
		loop.EnqueueResync("a/1")
		loop.Enqueue("a/2")
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		synctest.Wait()
		if diff := cmp.Diff([]string{"a/1", "a/2"}, order); diff != "" {
			t.Errorf("synced in another order (-want +got):\n%s", diff)
		}
	})
}

func BenchmarkFairQueue(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			q := NewFairQueue(func(key int) int { return key % 100 })
			for i := range size {
				q.Push(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				q.Push(q.Pop())
			}
		})
	}
}
