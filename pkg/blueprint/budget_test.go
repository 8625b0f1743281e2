// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Where all data is small, a Budget has its turn without a place, until more than freeWork is paid. Then it waits for a place, which it gives up at the end.
func TestSmallTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, total := places().Numbers()
		var others []func()
		for range total {
			done, err := NewBudget(t.Context()).Turn(false)
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, done)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var budgets []*Budget
		var ended []chan error
		var ends []func()
		for range 2 {
			b := NewBudget(ctx)
			done, err := b.Turn(true)
			if err == nil {
				err = b.pay(freeWork - 1)
			}
			if err != nil {
				t.Fatalf("without a place: %v", err)
			}
			paid := make(chan error, 1)
			go func() { paid <- b.pay(1) }()
			budgets, ended, ends = append(budgets, b), append(ended, paid), append(ends, done)
			synctest.Wait()
		}
		if len(ended[0])+len(ended[1]) > 0 {
			t.Error("more is paid without a place")
		}
		others[0]()
		if err := <-ended[0]; err != nil {
			t.Errorf("with a place: %v", err)
		}
		cancel()
		if err := <-ended[1]; !errors.Is(err, errStopped) || budgets[1].Stopped() == nil {
			t.Errorf("one that waits for a place when it is stopped: got %v", err)
		}
		for _, end := range append(ends, others[1:]...) {
			end()
		}
		for range total {
			release, ok := places().TryAcquire(struct{}{})
			if !ok {
				t.Fatal("places are taken at the end")
			}
			defer release()
		}
	})
}
