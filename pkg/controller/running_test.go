// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEndlessSyncIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, logged := testContext(t)
		release := make(chan struct{})
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			if key != "quick" {
				<-release
			}
			return 0, nil
		}})
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 3) })
		loop.Enqueue("stuck")
		time.Sleep(time.Second)
		loop.Enqueue("stuck too", "quick")
		time.Sleep(10*time.Minute - time.Second)
		if err := loop.CheckSyncs(); err != nil {
			t.Errorf("after ten minutes: %v", err)
		}
		time.Sleep(2 * time.Second)
		for range 2 {
			if want, err := "the sync of stuck has been running for 10m2s, which is more than 10m0s; overdue syncs: 2", loop.CheckSyncs(); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		if failures := errorsIn(logged()); len(failures) != 2 || valueOf(failures[0], "key") == valueOf(failures[1], "key") {
			t.Errorf("each sync that does not end is logged once; got %v", failures)
		}
		close(release)
		synctest.Wait()
		if err := loop.CheckSyncs(); err != nil {
			t.Errorf("when they have ended: %v", err)
		}
	})
}

func TestRestartedSyncLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := runLoop(t, 1, func(ctx context.Context, _ string) (time.Duration, error) {
			for range 10 {
				time.Sleep(5 * time.Minute)
				RestartSyncLimit(ctx)
			}
			time.Sleep(time.Hour)
			return 0, nil
		})
		loop.Enqueue("a")
		time.Sleep(55 * time.Minute)
		if err := loop.CheckSyncs(); err != nil {
			t.Errorf("five minutes after it has gone on: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if err := loop.CheckSyncs(); err == nil {
			t.Error("15 minutes after it has gone on it is healthy")
		}
		time.Sleep(time.Hour)
	})
}

func TestASyncThatPanicsHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panicked := false
		loop := runLoop(t, 1, func(context.Context, string) (time.Duration, error) {
			if !panicked {
				panicked = true
				syncThatPanics()
			}
			return 0, nil
		})
		loop.Enqueue("a")
		time.Sleep(time.Hour)
		if err := loop.CheckSyncs(); err != nil {
			t.Error(err)
		}
	})
}

func TestASyncMayTakeAsLongAsWhatItWaitsForLegally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ExtendSyncLimit(t.Context(), time.Hour) // outside of a sync
		loop := runLoop(t, 1, func(ctx context.Context, _ string) (time.Duration, error) {
			ExtendSyncLimit(ctx, time.Hour)
			time.Sleep(2 * time.Hour)
			return 0, nil
		})
		loop.Enqueue("a")
		time.Sleep(70 * time.Minute)
		if err := loop.CheckSyncs(); err != nil {
			t.Errorf("after 70 minutes: %v", err)
		}
		time.Sleep(time.Minute)
		if loop.CheckSyncs() == nil {
			t.Error("after 71 minutes it is healthy")
		}
	})
}

// A user who mends what was permanent is not to wait for a delay that grew before.
func TestAPermanentErrorEndsTheGrowthOfTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
			switch n := seen.record(key); {
			case n < 10:
				return 0, errors.New("not yet")
			case n == 10:
				return 0, Permanent(errors.New("image is required"))
			case n == 11:
				return 0, errors.New("not yet")
			default:
				return 0, nil
			}
		})
		loop.Enqueue("a")
		time.Sleep(time.Hour)
		loop.Enqueue("a")
		time.Sleep(time.Hour)
		times := seen.timesOf("a")
		if len(times) != 13 {
			t.Fatalf("synced %d times, want 13: %v", len(times), times)
		}
		if diff := cmp.Diff([]time.Duration{time.Hour, time.Hour + 5*time.Millisecond}, times[11:]); diff != "" {
			t.Errorf("syncs after the permanent error, at (-want +got):\n%s", diff)
		}
	})
}
