// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// pace is when the tests of a part end.
type pace struct {
	takes time.Duration
	// ended is how many tests have ended, subtests too, after each tenth of that time.
	ended [10]int
}

// paces were measured by make test on two cores, integration next to the parts of the second lane. That they were measured elsewhere, and age as tests are
// added, matters little: how long a run still takes is corrected by how long it took so far.
var paces = map[string]pace{
	"unit":         {244 * time.Second, [...]int{254, 1144, 1892, 1927, 2096, 2482, 2669, 3770, 4613, 5287}},
	"integration":  {706 * time.Second, [...]int{36, 106, 280, 356, 457, 517, 572, 705, 724, 817}},
	"perturbation": {455 * time.Second, [...]int{4, 165, 591, 884, 1061, 1166, 1249, 1395, 1512, 1825}},
}

// at returns when that many tests have ended.
func (p pace) at(ended int) time.Duration {
	before, tenth := 0, p.takes/time.Duration(len(p.ended))
	for i, count := range p.ended {
		if ended < count {
			return time.Duration(i)*tenth + tenth*time.Duration(ended-before)/time.Duration(count-before)
		}
		before = count
	}
	return p.takes
}

// left returns about how long the part, of which that many tests have ended, and then the rest of the run still take. A machine that took twice as long
// so far takes twice as long for the rest. The first moments show little of that: they count as if a tenth of the part had been done as measured.
func (p pace) left(ended int, elapsed, then time.Duration) time.Duration {
	done, prior := p.at(ended), p.takes/10
	rest := p.takes - done + then
	if prior == 0 {
		return rest
	}
	return time.Duration(float64(rest) * float64(elapsed+prior) / float64(done+prior)).Round(time.Second)
}
