// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowHooks makes hooks of one client whose calls take a minute, and returns how many calls are under way.
func slowHooks(t *testing.T, options Options, urls ...string) (hooks []*Hook, underWay func() int) {
	return hooksThatTake(t, time.Minute, options, urls...)
}

func hooksThatTake(t *testing.T, each time.Duration, options Options, urls ...string) (hooks []*Hook, underWay func() int) {
	running := make(chan struct{}, 1000)
	client := NewClient(options)
	hour := time.Hour
	for _, url := range urls {
		hook, err := client.NewHook(t.Context(), Config{Phase: "sync", URL: url, Timeout: &hour, Instrument: answering(func(r *http.Request) (*http.Response, error) {
			running <- struct{}{}
			time.Sleep(each)
			<-running
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(hook.Close)
		hooks = append(hooks, hook)
	}
	return hooks, func() int { return len(running) }
}

func TestConcurrentCallsPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, underWay := slowHooks(t, Options{PerHost: 3, WaitingPerHost: 2}, "http://a/sync", "http://A:80/finalize", "http://b/sync")
		began := time.Now()
		results := make(chan error, 7)
		for i := range cap(results) {
			go func() {
				_, err := hooks[i%2].Call(t.Context(), "uid", emptyRequest())
				results <- err
			}()
		}
		synctest.Wait()
		if underWay() != 3 {
			t.Errorf("%d calls are under way, want 3", underWay())
		}
		for range 2 { // of seven three run and two wait
			e := wantReason(t, <-results, ReasonBusy, "3 calls to a:80 are under way")
			if e.RetryAfter <= 0 {
				t.Errorf("does not say when to come back: %v", e)
			}
		}
		if waited := time.Since(began); waited > shortPatience {
			t.Errorf("those that are turned away were held for %s, want %s at most", waited, shortPatience)
		}
		go func() { _, _ = hooks[2].Call(t.Context(), "uid", emptyRequest()) }()
		synctest.Wait()
		if underWay() != 4 {
			t.Errorf("with one to another host %d calls are under way, want 4", underWay())
		}
		for range 5 {
			if err := <-results; err != nil {
				t.Errorf("a call that had its turn: %v", err)
			}
		}
		synctest.Wait()
	})
}

func TestFastHookRefusesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, _ := hooksThatTake(t, 5*time.Millisecond, Options{PerHost: 3, WaitingPerHost: 2}, "http://a/sync")
		results := make(chan error, 50)
		for range cap(results) {
			go func() {
				_, err := hooks[0].Call(t.Context(), "uid", emptyRequest())
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSlowNeighbour: two owners have hooks of one host, and one hook is slow. It takes all slots that are kept for no other owner.
func TestSlowNeighbour(t *testing.T) {
	const calls, each = 200, 5 * time.Millisecond
	took := map[bool]time.Duration{}
	for _, disturbed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client := NewClient(Options{PerHost: 8, WaitingPerHost: 4})
			hookOf := func(owner string, each time.Duration) *Hook {
				minute := time.Minute
				hook, err := client.NewHook(t.Context(), Config{Owner: owner, URL: "http://a/" + owner, Timeout: &minute,
					Instrument: answering(func(r *http.Request) (*http.Response, error) {
						time.Sleep(each)
						return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
					})})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(hook.Close)
				return hook
			}
			slow, quick := hookOf("slow", 8*time.Second), hookOf("quick", each)
			if disturbed {
				for range 300 {
					go func() { _, _ = slow.Call(t.Context(), "uid", emptyRequest()) }()
				}
				synctest.Wait()
			}
			began := time.Now()
			for range calls {
				if _, err := quick.Call(t.Context(), "uid", emptyRequest()); err != nil {
					t.Error(err)
				}
			}
			took[disturbed] = time.Since(began)
			time.Sleep(10 * time.Minute)
		})
	}
	if took[true] > took[false]*6/5 {
		t.Errorf("next to a slow hook %d calls took %s, without it %s", calls, took[true], took[false])
	}
}

// TestTurns: the slots that are kept for no owner are given in turn, and one owner may have all that no other one needs.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := hosts{perHost: 8, waiting: 100, known: map[string]*host{}}
		at, err := url.Parse("http://a")
		if err != nil {
			t.Fatal(err)
		}
		tenants := map[string]*tenant{}
		got := make(chan string, 100)
		join := func(owner string) { tenants[owner] = all.join(at, owner) }
		call := func(owner string, times int) {
			for range times {
				go func() {
					if err := tenants[owner].acquire(t.Context(), time.Hour); err == nil {
						got <- owner
					}
				}()
				synctest.Wait()
			}
		}
		wantGot := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var is []string
			for range len(got) {
				is = append(is, <-got)
			}
			if !slices.Equal(is, want) {
				t.Errorf("slots were given to %q, want %q", is, want)
			}
		}
		join("a")
		call("a", 9)
		wantGot("a", "a", "a", "a", "a", "a", "a", "a")
		join("b")
		call("b", 3)
		wantGot()
		for _, next := range []string{"b", "b", "a", "b"} { // the part of b is two; then they have their turns
			tenants["a"].release()
			wantGot(next)
		}
		all.leave(tenants["a"])
		if len(tenants["b"].host.tenants) != 2 {
			t.Error("an owner whose calls are under way is forgotten")
		}
		for range 5 {
			tenants["a"].release()
		}
		call("b", 6)
		wantGot("b", "b", "b", "b", "b")
		if h := tenants["b"].host; len(h.tenants) != 1 || h.used != 8 || h.waiting != 1 {
			t.Errorf("%d owners use %d slots, and %d calls wait", len(h.tenants), h.used, h.waiting)
		}
		tenants["b"].release()
		wantGot("b")
	})
}

// TestSlotsAreNeitherLostNorDoubled: whatever owners come, call, give up and go.
func TestSlotsAreNeitherLostNorDoubled(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			all := hosts{perHost: 1 + random.IntN(9), waiting: 1 + random.IntN(5), known: map[string]*host{}}
			at, err := url.Parse("http://a")
			if err != nil {
				t.Fatal(err)
			}
			first := all.join(at, "first")
			underWay := atomic.Int32{}
			var calls sync.WaitGroup
			for i := range 30 {
				owner := all.join(at, fmt.Sprint(random.IntN(5)))
				patience, each := time.Duration(random.IntN(300))*time.Millisecond, time.Duration(random.IntN(200))*time.Millisecond
				for range random.IntN(4) {
					calls.Go(func() {
						if owner.acquire(t.Context(), patience) != nil {
							return
						}
						if now := underWay.Add(1); int(now) > all.perHost {
							t.Errorf("seed %d: %d calls are under way, %d may be", seed, now, all.perHost)
						}
						time.Sleep(each)
						underWay.Add(-1)
						owner.release()
					})
				}
				if i%3 == 0 {
					time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				}
				all.leave(owner)
			}
			calls.Wait()
			if h := first.host; h.used != 0 || h.waiting != 0 || len(h.tenants) != 1 {
				t.Errorf("seed %d: at the end %d slots are used, %d calls wait, and there are %d owners", seed, h.used, h.waiting, len(h.tenants))
			}
		})
	}
}

func TestWaitingCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, _ := slowHooks(t, Options{PerHost: 1}, "http://a/sync")
		go func() { _, _ = hooks[0].Call(t.Context(), "uid", emptyRequest()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := hooks[0].Call(ctx, "uid", emptyRequest()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the end of the context", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestNothingIsKeptOfHooksThatAreClosed(t *testing.T) {
	client := NewClient(Options{})
	hook, err := client.NewHook(t.Context(), Config{URL: "http://a/sync", Instrument: answering((&fakeNetwork{code: http.StatusOK}).RoundTrip)})
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t, hook); err != nil {
		t.Error(err)
	}
	hook.Close()
	hook.Close()
	if len(client.hosts.known) != 0 || len(client.transports.known) != 0 {
		t.Errorf("left are the hosts %v and %d transports", client.hosts.known, len(client.transports.known))
	}
	wantReason(t, call(t, hook), ReasonInvalidConfiguration)
}
