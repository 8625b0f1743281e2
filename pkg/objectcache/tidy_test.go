// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import "testing"

func TestGarbageTargetShrinksWithTheCache(t *testing.T) {
	for _, test := range []struct{ mebibytes, percent int }{
		{0, 100}, {1, 100}, {32, 100}, {64, 50}, {128, 25}, {160, 20}, {10_000, 20},
	} {
		if got := gcPercent(test.mebibytes << 20); got != test.percent {
			t.Errorf("with %d MiB it is %d %%, want %d %%", test.mebibytes, got, test.percent)
		}
	}
}
