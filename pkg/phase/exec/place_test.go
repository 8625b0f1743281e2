// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"millwright.dev/pkg/inflight"
)

// All readers of a command wait for one place. It is known that they wait.
func TestReadersTakeOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := inflight.NewLimit[string](1, 1)
		free, _ := limit.TryAcquire("a")
		var waits []bool
		p := newPlace(limit, "a", func(now bool) { waits = append(waits, now) })
		got := make(chan error, 3)
		for range 3 {
			go func() { got <- p.take(t.Context()) }()
		}
		synctest.Wait()
		if len(got) != 0 || len(waits) != 1 || !waits[0] {
			t.Errorf("without a place: %d calls have returned, waits: %v; want none, and [true]", len(got), waits)
		}
		free()
		synctest.Wait()
		if len(got) != 3 || len(waits) != 2 || waits[1] {
			t.Errorf("with a place: %d calls have returned, waits: %v; want 3, and [true false]", len(got), waits)
		}
		for range 3 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		p.release()
		p.release()
		hold(t, limit, "a", 1)
	})
}

// A reader that waits ends with its context, and does not take the place of a command that is forgotten.
func TestPlaceOfEndedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := inflight.NewLimit[string](1, 1)
		free, _ := limit.TryAcquire("a")
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, forgotten := newPlace(limit, "a", func(bool) {}), newPlace(limit, "a", func(bool) {})
		got := make(chan error, 2)
		for range 2 {
			go func() { got <- cancelled.take(ctx) }()
		}
		synctest.Wait()
		cancel()
		for range 2 {
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want %v", err, context.Canceled)
			}
		}
		go func() { got <- forgotten.take(t.Context()) }()
		synctest.Wait()
		forgotten.release()
		free()
		if err := <-got; !errors.Is(err, errForgotten) {
			t.Errorf("a reader that has waited: got error %v, want %v", err, errForgotten)
		}
		if err := forgotten.take(t.Context()); !errors.Is(err, errForgotten) {
			t.Errorf("another reader: got error %v, want %v", err, errForgotten)
		}
		hold(t, limit, "a", 1)
	})
}
