// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

func TestRunningSyncWhenTheLoopStops(t *testing.T) {
	for name, tc := range map[string]struct {
		takes         time.Duration // what the sync still needs when the loop is stopped
		heedsContext  bool
		wantCancelled time.Duration // after the stop; 0 for never
		wantReturn    time.Duration // of Run, after the stop
	}{
		"one that is quick finishes with a live context": {
			takes:      4 * time.Second,
			wantReturn: 4 * time.Second,
		},
		"one that hangs is cancelled after five seconds": {
			takes:         time.Hour,
			heedsContext:  true,
			wantCancelled: 5 * time.Second,
			wantReturn:    5 * time.Second,
		},
		"one that does not heed its context is waited for all the same": {
			takes:         8 * time.Second,
			wantCancelled: 5 * time.Second,
			wantReturn:    8 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := testContext(t)
				ctx, stop := context.WithCancel(ctx)
				const untilStop = time.Second
				begin, cancelled := time.Now(), time.Duration(0)
				seen := newSyncs()
				loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(ctx context.Context, key string) (time.Duration, error) {
					seen.record(key)
					finished := time.After(untilStop + tc.takes)
					select {
					case <-finished:
						return 0, nil
					case <-ctx.Done():
						cancelled = time.Since(begin) - untilStop
					}
					if !tc.heedsContext {
						<-finished
					}
					return 0, ctx.Err()
				}})
				returned := make(chan time.Time)
				go func() {
					loop.Run(ctx, 1)
					returned <- time.Now()
				}()
				loop.Enqueue("in hand", "in the queue", "in the queue too")
				time.Sleep(untilStop)
				stop()

				if got := (<-returned).Sub(begin) - untilStop; got != tc.wantReturn {
					t.Errorf("Run returned %v after the stop, want %v", got, tc.wantReturn)
				}
				if cancelled != tc.wantCancelled {
					t.Errorf("the sync was cancelled %v after the stop, want %v (0 is never)", cancelled, tc.wantCancelled)
				}
				if diff := cmp.Diff([]string{"in hand"}, seen.inOrder()); diff != "" {
					t.Errorf("keys taken (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRunReturnsOnlyWhenEveryWorkerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		ctx, stop := context.WithCancel(ctx)
		durations := map[string]time.Duration{"short": time.Second, "long": 3 * time.Second}
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			time.Sleep(durations[key])
			return 0, nil
		}})
		loop.Enqueue("short", "long")
		begin := time.Now()
		time.AfterFunc(500*time.Millisecond, stop)
		loop.Run(ctx, 3)
		if got := time.Since(begin); got != 3*time.Second {
			t.Errorf("Run returned after %v, want 3s, when the last sync was done", got)
		}
	})
}

func TestSyncContextHasTheLoopsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type tag struct{}
		ctx, _ := testContext(t)
		ctx = context.WithValue(ctx, tag{}, "kept")
		got := make(chan any, 1)
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(ctx context.Context, _ string) (time.Duration, error) {
			got <- ctx.Value(tag{})
			return 0, nil
		}})
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		loop.Enqueue("a")
		if value := <-got; value != "kept" {
			t.Errorf("the value is %v, want it kept", value)
		}
	})
}

// In a bubble a goroutine that is left behind fails the test.
func TestRunWithEndedContext(t *testing.T) {
	for name, synced := range map[string][]cache.DoneChecker{
		"when it watches nothing":                  nil,
		"when its caches will never be filled":     {make(checker)},
		"when its caches have just been filled":    {closedChecker()},
		"when one of its caches is not filled yet": {closedChecker(), make(checker)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := testContext(t)
				ended, end := context.WithCancel(ctx)
				end()
				seen := newSyncs()
				loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
					seen.record(key)
					return 0, nil
				}})
				loop.synced = synced
				loop.Enqueue("a", "b")
				begin := time.Now()
				loop.Run(ended, 2)
				if got := time.Since(begin); got != 0 {
					t.Errorf("Run took %v", got)
				}
				if got := seen.inOrder(); len(got) != 0 {
					t.Errorf("synced %v", got)
				}
			})
		})
	}
}

func closedChecker() checker {
	c := make(checker)
	close(c)
	return c
}

func TestStopWhileWaitingForCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := testContext(t)
		ctx, stop := context.WithCancel(ctx)
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(context.Context, string) (time.Duration, error) {
			t.Error("synced before the caches were filled")
			return 0, nil
		}})
		loop.synced = []cache.DoneChecker{make(checker)}
		loop.Enqueue("a")
		time.AfterFunc(time.Minute, stop)
		begin := time.Now()
		loop.Run(ctx, 1)
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("Run returned after %v, want when the context ended", got)
		}
	})
}
