// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
)

func TestGarbageTargetShrinksWithTheCache(t *testing.T) {
	for _, test := range []struct{ mebibytes, percent int }{
		{0, 100}, {1, 100}, {32, 100}, {64, 50}, {128, 25}, {160, 20}, {10_000, 20},
	} {
		if got := gcPercent(test.mebibytes << 20); got != test.percent {
			t.Errorf("with %d MiB it is %d %%, want %d %%", test.mebibytes, got, test.percent)
		}
	}
}

func TestTheCollectorIsAdaptedWhileTheCacheGrows(t *testing.T) {
	t.Setenv("GOGC", "") // a value of the environment is left as it is
	before := debug.SetGCPercent(maxGCPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		const mebi, number = 1 << 20, 40
		for i := range number {
			server.write("ns", fmt.Sprintf("large-%d", i), strings.Repeat("x", mebi))
			synctest.Wait()
		}
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		if metrics.Read(percent); percent[0].Value.Uint64() > uint64(gcPercent(number*mebi)) {
			t.Errorf("with %d MiB that came by events, garbage may be %d %% of what lives", number, percent[0].Value.Uint64())
		}
		server.wantUpToDate(u)
	})
}
