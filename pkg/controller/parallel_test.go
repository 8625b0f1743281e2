// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParallel(t *testing.T) {
	for _, count := range []int{0, 1, 2, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			var underWay, most atomic.Int32
			calls := make([]atomic.Int32, count)
			began := time.Now()
			Parallel(count, 4, func(i int) {
				if now := underWay.Add(1); now > most.Load() {
					most.Store(now)
				}
				time.Sleep(time.Second)
				calls[i].Add(1)
				underWay.Add(-1)
			})
			for i := range calls {
				if n := calls[i].Load(); n != 1 {
					t.Errorf("%d of %d was called %d times", i, count, n)
				}
			}
			if most.Load() > 4 {
				t.Errorf("%d calls of %d were made concurrently, want at most 4", most.Load(), count)
			}
			if want := time.Duration((count+3)/4) * time.Second; time.Since(began) != want {
				t.Errorf("%d calls took %s, want %s", count, time.Since(began), want)
			}
		})
	}
}

func TestPanicInParallel(t *testing.T) {
	var returned atomic.Int32
	defer func() {
		value := recover()
		if text := fmt.Sprint(value); !strings.Contains(text, "the third") || !strings.Contains(text, "parallel_test.go") {
			t.Errorf("the caller panicked with %q, want what was said, and where", text)
		}
		if returned.Load() != 4 {
			t.Errorf("%d other calls have returned, want 4", returned.Load())
		}
	}()
	Parallel(5, 2, func(i int) {
		if i == 2 {
			panic("the third")
		}
		returned.Add(1)
	})
	t.Error("the caller did not panic")
}
