// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func mustGrow(t *testing.T, s *share, n int64) {
	t.Helper()
	if err := s.grow(t.Context(), n, 0); err != nil {
		t.Fatalf("%d bytes more: %v", n, err)
	}
}

// full is a budget of which all is taken: what is free for all by one share, and the lane by another.
func full(t *testing.T, half int64) (b *budget, sharer, inLane *share) {
	t.Helper()
	b = newBudget(2 * half)
	sharer, inLane = b.share(), b.share()
	mustGrow(t, sharer, half)
	mustGrow(t, b.share(), 2*allowance) // so that not all is free
	mustGrow(t, inLane, half)
	if b.lane != inLane {
		t.Fatal("the second large share is not in the lane")
	}
	return b, sharer, inLane
}

func TestNoAnswerTakesMoreThanOneMay(t *testing.T) {
	b := newBudget(8 << 20)
	s := b.share()
	mustGrow(t, s, 4<<20)
	if err := s.grow(t.Context(), 1, time.Hour); err != errTooMuch {
		t.Errorf("the error is %v, want %v", err, errTooMuch)
	}
	s.release()
	mustGrow(t, s, 4<<20)
}

func TestASmallAnswerNeverWaits(t *testing.T) {
	b, _, _ := full(t, 8<<20)
	for range 100 {
		mustGrow(t, b.share(), allowance)
	}
}

func TestMemoryWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sharer, _ := full(t, 8<<20)
		s := b.share()
		start := time.Now()
		if err := s.grow(t.Context(), 4<<20, time.Minute); err != errNoRoom || time.Since(start) != time.Minute {
			t.Errorf("after %s the error is %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.grow(ctx, 4<<20, time.Minute); err != errNoRoom || time.Since(start) != 61*time.Second {
			t.Errorf("after %s the error is %v", time.Since(start), err)
		}
		sharer.release()
		mustGrow(t, s, 4<<20) // nothing of what was asked for in vain is counted
	})
}

func TestMemoryIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sharer, inLane := full(t, 8<<20)
		var mu sync.Mutex
		var order []int
		for i := range 3 {
			go func() {
				s := b.share()
				if err := s.grow(t.Context(), []int64{8 << 20, 6 << 20, 1 << 20}[i], time.Hour); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				s.release()
			}()
			synctest.Wait()
		}
		sharer.release()
		synctest.Wait()
		inLane.release()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(order) != "[0 1 2]" {
			t.Errorf("the order is %v: a small one that came later goes before a large one", order)
		}
	})
}

// Any number of answers that all grow step by step, hold what they have meanwhile, and need more than there is together.
func TestWaitingAnswersAllComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 32 << 20
		b := newBudget(total)
		var taken, most atomic.Int64
		random := rand.New(rand.NewPCG(1, 2))
		var ended sync.WaitGroup
		for range 100 {
			steps := make([]int64, 16)
			for i := range steps {
				steps[i] = random.Int64N(1 << 20)
			}
			ended.Go(func() {
				s := b.share()
				var mine int64
				for _, n := range steps {
					if err := s.grow(t.Context(), n, 1000*time.Hour); err != nil {
						t.Error(err)
					}
					mine += n
					for now := taken.Add(n); ; {
						before := most.Load()
						if now <= before || most.CompareAndSwap(before, now) {
							break
						}
					}
					time.Sleep(time.Second)
				}
				taken.Add(-mine)
				s.release()
			})
		}
		ended.Wait()
		if most.Load() > total+100*allowance {
			t.Errorf("%d bytes were taken of %d", most.Load(), total)
		}
		if b.free != total/2 || b.lane != nil || b.waiting.Len() > 0 {
			t.Errorf("afterwards %d of %d bytes are free, the lane is %v, and %d wait", b.free, total/2, b.lane, b.waiting.Len())
		}
	})
}

// A hook whose large answers come without end, however slowly, holds up neither the small answers of others nor, for long, large ones.
func TestLargeAnswersOfOneHookLeaveRoomForOthers(t *testing.T) {
	timeout, stop := time.Hour, make(chan struct{})
	client := NewClient(Options{AnswerMemory: 16 << 20, MaxBody: 4 << 20})
	begun := make(chan struct{}, 8)
	drip := serveWith(t, client, Config{Timeout: &timeout}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 3<<20))
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var dripping sync.WaitGroup
	for range cap(begun) {
		dripping.Go(func() { _, _ = drip.Call(ctx, "uid", emptyRequest()) })
	}
	for range cap(begun) {
		<-begun
	}
	small := serveWith(t, client, Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":{}}`) })
	for range 100 {
		answer, err := small.Call(t.Context(), "uid", emptyRequest())
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer.Release()
	}
	cancel()
	dripping.Wait()
	close(stop)
	large := serveWith(t, client, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 3<<20)+"{}")
	})
	for range 10 {
		answer, err := large.Call(t.Context(), "uid", emptyRequest())
		if err != nil {
			t.Fatal(err)
		}
		answer.Release()
	}
	if client.budget.free != 8<<20 || client.budget.lane != nil {
		t.Errorf("afterwards %d bytes are free", client.budget.free)
	}
}

func TestALargeBodyThatComesTooSlowlyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeout := time.Hour
		hook := newTestHook(t, Config{URL: "http://hook/", Timeout: &timeout, Instrument: answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: &drip{ctx: r.Context(), fast: firstBody * 2}, Request: r}, nil
		})})
		start := time.Now()
		wantReason(t, call(t, hook), ReasonUnreachable, "has to come within 30s")
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// drip is a body that comes fast at first, and then byte by byte.
type drip struct {
	ctx  context.Context
	fast int
}

func (d *drip) Read(p []byte) (int, error) {
	if d.fast > 0 {
		n := min(len(p), d.fast)
		d.fast -= n
		clear(p[:n])
		return n, nil
	}
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	}
}

func (d *drip) Close() error { return nil }

func TestTooLargeDecodedAnswer(t *testing.T) {
	body := `{"status":{"a":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 100_000), ",") + `]}}`
	hook := serveWith(t, NewClient(Options{AnswerMemory: 64 << 20}), Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	answer, err := hook.Call(t.Context(), "uid", emptyRequest())
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, answer.Reserve(t.Context()), ReasonTooLarge, fmt.Sprint(len(body), " bytes"), fmt.Sprint(32<<20))
	answer.Release()
}

func TestMemoryThatOthersTakeIsNoFailureOfTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newTestHook(t, Config{URL: "http://hook/", Instrument: answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: &drip{ctx: r.Context(), fast: 2 << 20}, Request: r}, nil
		})})
		hook.client.budget.free, hook.client.budget.lane = 0, hook.client.budget.share()
		for range breakerThreshold + 1 {
			if e := wantReason(t, call(t, hook), ReasonNoMemory, "the answers of other hooks take all memory"); e.RetryAfter <= 0 {
				t.Errorf("to be retried after %s", e.RetryAfter)
			}
		}
	})
}
