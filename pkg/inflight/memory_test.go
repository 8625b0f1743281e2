// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestForMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	heapOf := func(mebibytes int64) int64 { return mebibytes << 20 / 100 * 80 } // as cmd/millwright sets it
	type numbers struct{ atMost, total, ofKey, one int }
	for limit, want := range map[int64]numbers{
		math.MaxInt64:     {8, 8, 6, 1}, // without a limit
		heapOf(512):       {8, 8, 6, 1},
		heapOf(500):       {7, 7, 5, 1},
		heapOf(384):       {6, 6, 4, 1},
		heapOf(256):       {4, 4, 3, 1},
		heapOf(64):        {1, 2, 1, 1},
		heapOf(1):         {1, 2, 1, 1},
		heapOf(1024):      {8, 16, 12, 2},
		heapOf(64 * 1024): {8, 32, 24, 4},
	} {
		debug.SetMemoryLimit(limit)
		ofKey, total := NewMemoryLimit[string](8).Numbers()
		if got := (numbers{AtMostForMemory(8), total, ofKey, ForMemory(1)}); got != want {
			t.Errorf("memory limit %d: got %+v, want %+v", limit, got, want)
		}
	}
}
