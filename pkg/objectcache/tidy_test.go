// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import "testing"

func TestTheLargerTheCacheTheLessGarbageComesTogetherBesideIt(t *testing.T) {
	for _, test := range []struct{ mebibytes, percent int }{
		{0, 100}, {1, 100}, {48, 100}, {96, 50}, {140, 34}, {192, 25}, {10_000, 25},
	} {
		if got := gcPercent(test.mebibytes << 20); got != test.percent {
			t.Errorf("beside %d MiB it is %d %%, want %d %%", test.mebibytes, got, test.percent)
		}
	}
}
