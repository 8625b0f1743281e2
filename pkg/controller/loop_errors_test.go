// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"
)

var pods = schema.GroupResource{Resource: "pods"}

func staleConflict() error {
	return fmt.Errorf("writing the status: %w", apierrors.NewConflict(pods, "x", errors.New("the object has been modified")))
}

func fieldManagerConflict() error {
	err := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas"}}, "conflict with \"hpa\"")
	return fmt.Errorf("applying the Deployment: %w", err)
}

func TestDelayAfterOutageIsShort(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"not reached":                   {err: &url.Error{Op: "Put", URL: "https://127.0.0.1:1/", Err: syscall.ECONNREFUSED}, want: 5 * time.Second},
		"failing":                       {err: apierrors.NewInternalError(errors.New("etcdserver: request timed out")), want: 5 * time.Second},
		"overloaded":                    {err: apierrors.NewTooManyRequests("the server is busy", 0), want: 5 * time.Second},
		"not aware of the owner's kind": {err: ownerUnknown(), want: time.Second},
		"refusing":                      {err: apierrors.NewForbidden(pods, "x", errors.New("exceeded quota")), want: 60 * time.Second},
		"calling it invalid":            {err: Invalid(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)), want: 5 * time.Minute},
		"our own":                       {err: errors.New("unknown step"), want: 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := testContext(t)
				seen := newSyncs()
				loop := NewLoop(ctx, Config[string]{Name: t.Name(), Sync: func(_ context.Context, key string) (time.Duration, error) {
					seen.record(key)
					return 0, fmt.Errorf("writing the status: %w", tc.err)
				}})
				inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
				loop.Enqueue("default/x")
				time.Sleep(time.Hour)

				times := seen.timesOf("default/x")
				if got := times[len(times)-1] - times[len(times)-2]; got != tc.want {
					t.Errorf("after an hour of it, %v between two tries, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestRetry(t *testing.T) {
	for name, tc := range map[string]struct {
		sync        func() error
		wantRetried bool
		wantError   string // the log line, "" for none
		wantResult  string
	}{
		"a success is the end of it": {
			sync:       func() error { return nil },
			wantResult: "success",
		},
		"an error is logged and retried": {
			sync:        func() error { return errors.New("the API server is tired") },
			wantRetried: true,
			wantError:   "the API server is tired",
			wantResult:  "error",
		},
		"a permanent error is logged and not retried": {
			sync:       func() error { return fmt.Errorf("creating: %w", Permanent(errors.New("image is required"))) },
			wantError:  "creating: image is required",
			wantResult: "permanent",
		},
		"an object that was rejected as invalid is retried": {
			sync:        func() error { return fmt.Errorf("creating: %w", Invalid(errors.New("no such port"))) },
			wantRetried: true,
			wantError:   "creating: no such port",
			wantResult:  "invalid",
		},
		"an optimistic-lock conflict is retried quietly": {
			sync:        staleConflict,
			wantRetried: true,
			wantResult:  "stale",
		},
		"an owner's kind that the API server has not noticed yet is retried without a complaint": {
			sync:        func() error { return fmt.Errorf("creating Pod: %w", ownerUnknown()) },
			wantRetried: true,
			wantResult:  "error",
		},
		"a conflict with another field manager is an error": {
			sync:        fieldManagerConflict,
			wantRetried: true,
			wantError:   "applying the Deployment",
			wantResult:  "error",
		},
		"a permanent conflict is permanent": {
			sync:       func() error { return Permanent(staleConflict()) },
			wantError:  "the object has been modified",
			wantResult: "permanent",
		},
		"a conflict that is joined with an error is an error": {
			sync:        func() error { return errors.Join(staleConflict(), errors.New("exceeded quota")) },
			wantRetried: true,
			wantError:   "exceeded quota",
			wantResult:  "error",
		},
		"a permanent error that is joined with another is retried": {
			sync: func() error {
				return errors.Join(Permanent(errors.New("image is required")), errors.New("exceeded quota"))
			},
			wantRetried: true,
			wantError:   "image is required",
			wantResult:  "error",
		},
		"a sync that is postponed is not retried": {
			sync:       func() error { return fmt.Errorf("the cache is stale: %w", ErrPostponed) },
			wantResult: "postponed",
		},
		"a panic is logged and retried": {
			sync:        func() error { panic("out of range") },
			wantRetried: true,
			wantError:   "panic: out of range",
			wantResult:  "panic",
		},
		"a panic with an error is a panic, whatever the error is": {
			sync:        func() error { panic(staleConflict()) },
			wantRetried: true,
			wantError:   "panic: writing the status",
			wantResult:  "panic",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, logged := testContext(t)
				seen := newSyncs()
				before := syncsCounted(t, t.Name())
				loop := NewLoop(ctx, Config[string]{Name: t.Name(), Sync: func(_ context.Context, key string) (time.Duration, error) {
					if seen.record(key) == 0 {
						return 0, tc.sync()
					}
					return 0, nil
				}})
				inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
				loop.Enqueue("default/x")
				time.Sleep(time.Hour)

				want := []time.Duration{0}
				if tc.wantRetried {
					want = append(want, 5*time.Millisecond)
				}
				if diff := cmp.Diff(want, seen.timesOf("default/x")); diff != "" {
					t.Errorf("synced at (-want +got):\n%s", diff)
				}
				failures := errorsIn(logged())
				switch {
				case tc.wantError == "" && len(failures) > 0:
					t.Errorf("logged as an error: %v", failures)
				case tc.wantError != "" && len(failures) != 1:
					t.Errorf("logged %d errors, want one: %v", len(failures), failures)
				case tc.wantError != "":
					wantContains(t, fmt.Sprint(failures[0].Err), tc.wantError)
					if key := valueOf(failures[0], "key"); key != "default/x" {
						t.Errorf("the error is logged for key %v, want default/x", key)
					}
				}
				counted := syncsCounted(t, t.Name())
				for result := range before { // of an earlier run in this process
					counted[result] -= before[result]
				}
				wantCounted := map[string]float64{"success": 0, "stale": 0, "error": 0, "permanent": 0, "invalid": 0, "panic": 0, "postponed": 0}
				wantCounted[tc.wantResult] = 1
				if tc.wantRetried {
					wantCounted["success"]++
				}
				if diff := cmp.Diff(wantCounted, counted); diff != "" {
					t.Errorf("syncs_total by result (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// syncsCounted returns what a scrape reports for the controller, by result.
func syncsCounted(t *testing.T, controller string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "millwright_controller_syncs_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["controller"] == controller {
				counted[labels["result"]] = metric.GetCounter().GetValue()
			}
		}
	}
	return counted
}

func TestPanicIsLoggedAndTheWorkerContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, logged := testContext(t)
		seen := newSyncs()
		loop := NewLoop(ctx, Config[string]{Name: "test", Sync: func(_ context.Context, key string) (time.Duration, error) {
			if seen.record(key) == 0 && key == "bad" {
				syncThatPanics()
			}
			return 0, nil
		}})
		inBackground(t, ctx, func(ctx context.Context) { loop.Run(ctx, 1) })
		loop.Enqueue("bad", "good")
		time.Sleep(time.Second)

		if diff := cmp.Diff([]string{"bad", "good", "bad"}, seen.inOrder()); diff != "" {
			t.Errorf("syncs of the only worker (-want +got):\n%s", diff)
		}
		for _, entry := range errorsIn(logged()) {
			wantContains(t, fmt.Sprint(valueOf(entry, "stack")), "syncThatPanics")
		}
	})
}

func syncThatPanics() { panic("at the disco") }

// What is due at a time is not to wait until the delay between retries of something else is over.
func TestFailedSyncIsRequeuedWhenItAsks(t *testing.T) {
	for name, err := range map[string]error{"an error": errors.New("exceeded quota"), "a permanent error": Permanent(errors.New("no such selector"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := newSyncs()
				loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
					seen.record(key)
					return 5 * time.Second, err
				})
				loop.Enqueue("a")
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				times := seen.timesOf("a")
				for i := range times[1:] {
					if waited := times[i+1] - times[i]; waited > 5*time.Second {
						t.Fatalf("not synced for %v, want at least every 5s: %v", waited, times)
					}
				}
				if len(times) < 100 {
					t.Errorf("synced %d times in ten minutes", len(times))
				}
			})
		})
	}
}

func TestRetryDelaysGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
			seen.record(key)
			return 0, errors.New("never")
		})
		loop.Enqueue("a")
		time.Sleep(10 * time.Minute)

		times := seen.timesOf("a")
		var got []time.Duration
		for i := 1; i < len(times); i++ {
			got = append(got, times[i]-times[i-1])
		}
		var want []time.Duration
		for delay, left := 5*time.Millisecond, 10*time.Minute; left >= min(delay, time.Minute); delay *= 2 {
			want = append(want, min(delay, time.Minute))
			left -= min(delay, time.Minute)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delays between the tries (-want +got):\n%s", diff)
		}
	})
}

func TestFailingKeysDoNotSlowDownOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newSyncs()
		loop := runLoop(t, 1, func(_ context.Context, key string) (time.Duration, error) {
			if n := seen.record(key); key != "healthy" && n < 3 {
				return 0, errors.New("not yet")
			}
			return 0, nil
		})
		for i := range 1000 {
			loop.Enqueue(fmt.Sprint(i))
		}
		time.Sleep(time.Millisecond)
		loop.Enqueue("healthy")
		time.Sleep(time.Hour)

		if diff := cmp.Diff([]time.Duration{time.Millisecond}, seen.timesOf("healthy")); diff != "" {
			t.Errorf("the healthy key was synced at (-want +got):\n%s", diff)
		}
		// Three failures: 5, 10 and 20 ms, for every key.
		want := []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond}
		for i := range 1000 {
			if diff := cmp.Diff(want, seen.timesOf(fmt.Sprint(i))); diff != "" {
				t.Fatalf("key %d was synced at (-want +got):\n%s", i, diff)
			}
		}
	})
}
