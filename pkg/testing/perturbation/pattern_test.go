// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"slices"
	"testing"
)

// Each point has one of the patterns that take turns, and each pattern has a point.
func TestInTurn(t *testing.T) {
	for turns := 1; turns <= 4; turns++ {
		for n := 1; n <= 9; n++ {
			points := make([]Point, n)
			for i := range points {
				points[i].K = i + 1
			}
			patternsOf := make([]int, n)
			for turn := range turns {
				mine := Pattern{turn: turn, turns: turns}.inTurn(points)
				if len(mine) == 0 {
					t.Errorf("%d points, pattern %d of %d: got no point", n, turn, turns)
				}
				for _, point := range mine {
					patternsOf[point.K-1]++
				}
			}
			if least, most := slices.Min(patternsOf), slices.Max(patternsOf); least < 1 || n >= turns && most > 1 {
				t.Errorf("%d points, %d patterns: got %v patterns of each point, want one", n, turns, patternsOf)
			}
		}
	}
	if points := make([]Point, 5); len((Pattern{}).inTurn(points)) != 5 {
		t.Error("pattern without turns: got fewer points, want all")
	}
}
