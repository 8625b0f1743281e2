// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

// syncs records when keys were synced, counted from the beginning of the bubble.
type syncs struct {
	mu    sync.Mutex
	begin time.Time
	order []string
	times map[string][]time.Duration
}

func newSyncs() *syncs { return &syncs{begin: time.Now(), times: map[string][]time.Duration{}} }

// record one sync; it returns how many there were of this key before.
func (s *syncs) record(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, key)
	s.times[key] = append(s.times[key], time.Since(s.begin))
	return len(s.times[key]) - 1
}

func (s *syncs) inOrder() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

func (s *syncs) timesOf(key string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.times[key])
}

// runLoop runs a loop of the sync function until the test ends.
func runLoop(t *testing.T, workers int, sync SyncFunc[string]) *Loop[string] {
	ctx, _ := testContext(t)
	loop := NewLoop(ctx, Config[string]{Name: "test", Sync: sync})
	inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, workers) })
	return loop
}

func TestOneKeyIsNeverSyncedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, total := map[string]int{}, map[string]int{}, map[string]int{}
		mostConcurrent := 0
		loop := runLoop(t, 4, func(_ context.Context, key string) (time.Duration, error) {
			enter := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				running[key] += by
				most[key] = max(most[key], running[key])
				all := 0
				for n := range maps.Values(running) {
					all += n
				}
				mostConcurrent = max(mostConcurrent, all)
			}
			enter(1)
			time.Sleep(time.Second)
			enter(-1)
			mu.Lock()
			defer mu.Unlock()
			total[key]++
			return 0, nil
		})
		for range 5 {
			loop.Enqueue("a", "b", "c")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait() // what the syncs wrote can be read from here on

		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, most); diff != "" {
			t.Errorf("concurrent syncs of one key (-want +got):\n%s", diff)
		}
		if mostConcurrent != 3 {
			t.Errorf("%d keys were synced concurrently, want 3: four workers were free", mostConcurrent)
		}
		// What is queued while it is synced is synced once more, however often it was queued.
		if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, total); diff != "" {
			t.Errorf("syncs (-want +got):\n%s", diff)
		}
	})
}

func TestConcurrencyIsLimitedByWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 2, func(_ context.Context, key string) (time.Duration, error) {
			seen.record(key)
			time.Sleep(time.Second)
			return 0, nil
		})
		loop.Enqueue("a", "b", "c")
		time.Sleep(500 * time.Millisecond)
		if got := seen.inOrder(); len(got) != 2 {
			t.Errorf("two workers took %v", got)
		}
		time.Sleep(time.Second)
		if got := seen.timesOf("c"); !cmp.Equal(got, []time.Duration{time.Second}) {
			t.Errorf("the third key was synced at %v, want when a worker was free, at 1s", got)
		}
	})
}

func TestASyncIsCalledAgainWhenItAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
			if seen.record(key) < 3 {
				return 10 * time.Second, nil
			}
			return 0, nil
		})
		loop.Enqueue("a")
		time.Sleep(time.Hour)
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}
		if diff := cmp.Diff(want, seen.timesOf("a")); diff != "" {
			t.Errorf("synced at (-want +got):\n%s", diff)
		}
	})
}

func TestSuccessResetsTheBackoff(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"when it has nothing more to do":     0,
		"when it asks to be called again":    time.Second,
		"when it asks to be called long ago": -time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := newSyncs()
				// Fails three times, succeeds, fails three times, succeeds for good.
				loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
					switch seen.record(key) {
					case 3:
						return after, nil
					case 7:
						return 0, nil
					default:
						return 0, errors.New("not yet")
					}
				})
				loop.Enqueue("a")
				time.Sleep(time.Minute)
				loop.Enqueue("a")
				time.Sleep(time.Hour)

				times := seen.timesOf("a")
				if len(times) < 8 {
					t.Fatalf("synced at %v, want at least 8 times", times)
				}
				var delays []time.Duration
				for i := 5; i < 8; i++ {
					delays = append(delays, times[i]-times[i-1])
				}
				want := []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}
				if diff := cmp.Diff(want, delays); diff != "" {
					t.Errorf("delays of the failures after the success (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPostponedSyncKeepsTheBackoff: a key that fails is retried with growing delay although its syncs wait for something between the failures.
func TestPostponedSyncKeepsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
			if seen.record(key)%2 == 1 {
				return time.Second, ErrPostponed
			}
			return 0, errors.New("not yet")
		})
		loop.Enqueue("a")
		time.Sleep(3 * time.Second)

		var want []time.Duration
		at := time.Duration(0)
		for delay := minRetryDelay; len(want) < 6; delay *= 2 {
			want = append(want, at, at+delay)
			at += delay + time.Second
		}
		if diff := cmp.Diff(want, seen.timesOf("a")); diff != "" {
			t.Errorf("synced at (-want +got):\n%s", diff)
		}
	})
}

// stack is a Queue whose newest key goes first.
type stack struct{ keys []string }

func (s *stack) Touch(string)    {}
func (s *stack) Push(key string) { s.keys = append(s.keys, key) }
func (s *stack) Len() int        { return len(s.keys) }
func (s *stack) Pop() string {
	last := s.keys[len(s.keys)-1]
	s.keys = s.keys[:len(s.keys)-1]
	return last
}

func TestTheQueueOfTheConfigDecidesWhoIsNext(t *testing.T) {
	for name, tc := range map[string]struct {
		queue *stack
		want  []string
	}{
		"without one, first in, first out":           {nil, []string{"first", "second", "third"}},
		"with one that puts the newest key in front": {&stack{}, []string{"third", "second", "first"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := testContext(t)
				seen := newSyncs()
				config := Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
					seen.record(key)
					return 0, nil
				}}
				if tc.queue != nil {
					config.Queue = tc.queue
				}
				loop := NewLoop(ctx, config)
				loop.Enqueue("first", "second", "third")
				inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
				synctest.Wait()
				if diff := cmp.Diff(tc.want, seen.inOrder()); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// checker is a cache that is filled when its channel is closed.
type checker chan struct{}

func (c checker) Name() string          { return "test" }
func (c checker) Done() <-chan struct{} { return c }

func TestNothingIsSyncedBeforeEveryCacheIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		seen := newSyncs()
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			seen.record(key)
			return 0, nil
		}})
		one, other := make(checker), make(checker)
		loop.synced = []cache.DoneChecker{one, other}
		loop.Enqueue("a")
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })

		time.Sleep(time.Hour)
		close(one)
		time.Sleep(time.Hour)
		if got := seen.inOrder(); len(got) != 0 {
			t.Errorf("synced %v while a cache was still empty", got)
		}
		close(other)
		synctest.Wait()
		if got := seen.inOrder(); !cmp.Equal(got, []string{"a"}) {
			t.Errorf("synced %v once the caches were filled, want a", got)
		}
	})
}
