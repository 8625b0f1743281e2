// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"
)

// quiet is how long nothing is printed before a line shows how far the part is.
const quiet = 20 * time.Second

// progress is how far a part is, and how long the run still takes.
type progress struct {
	part string
	pace pace
	// packages is how many the part has, or 0 if that is not known: then nothing is printed.
	packages int
	// then is how long the parts that follow take.
	then time.Duration
	now  func() time.Time

	begin, printed       time.Time
	endedPackages, ended int // of the packages and the tests; subtests are tests
}

func newProgress(part string, pace pace, packages int, then time.Duration, now func() time.Time) *progress {
	return &progress{part: part, pace: pace, packages: packages, then: then, now: now, begin: now(), printed: now()}
}

// endPackage returns what follows the line of a package that has ended.
func (p *progress) endPackage() string {
	if p.packages == 0 {
		return ""
	}
	p.endedPackages++
	p.printed = p.now()
	return fmt.Sprintf("  (%d of %d packages, %s)", p.endedPackages, p.packages, p.left())
}

// tick prints how far the part is, if nothing has been printed for a while.
func (p *progress) tick(out io.Writer) {
	if now := p.now(); p.packages > 0 && now.Sub(p.printed) >= quiet {
		p.printed = now
		fmt.Fprintf(out, "%s: %d tests after %s, %s\n", p.part, p.ended, now.Sub(p.begin).Round(time.Second), p.left())
	}
}

func (p *progress) left() string {
	left := p.pace.left(p.ended, p.now().Sub(p.begin), p.then)
	if left < 90*time.Second {
		return fmt.Sprintf("about %d s left", max(5, int(left.Seconds())/5*5))
	}
	return fmt.Sprintf("about %d min left", int(left.Round(time.Minute).Minutes()))
}
