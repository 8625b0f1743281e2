// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// change of a switch, as it was watched.
type change struct {
	machine, name string
	up            bool
	at            time.Time
}

// rules of the flips of one Machine.
type rules struct {
	flips           int           // to be made, one of each switch that is up
	delay, interval time.Duration // from up to down, and between two flips
	// tolerance is by how much two changes may have been watched nearer to each other than they were.
	tolerance time.Duration
}

// duration until the last flip is due.
func (r rules) duration() time.Duration { return r.delay + time.Duration(r.flips-1)*r.interval }

// pace is how the flips of many Machines have kept to the rules.
type pace struct {
	flips int
	// amiss are those that were not made, and those that were made and should not have been.
	amiss int
	early int
	// closest are the two flips of a Machine that were nearest to each other, and soonest the one that came first after its
	// switch was up.
	closest, soonest time.Duration
	// lateness of each flip, in seconds. It is due a delay after the longest that any switch of its Machine was up, and an
	// interval after the flip before it, whichever is later.
	lateness []float64
}

// paceOf so many Machines, of which these changes were watched in this order.
func paceOf(changes []change, machines int, r rules) pace {
	p := pace{amiss: machines * r.flips}
	byMachine := map[string][]change{}
	for _, c := range changes {
		byMachine[c.machine] = append(byMachine[c.machine], c)
	}
	for _, changes := range byMachine {
		p.add(changes, r)
	}
	return p
}

// add a Machine.
func (p *pace) add(changes []change, r rules) {
	up := map[string]time.Time{}
	var last time.Time
	flips := 0
	for _, c := range changes {
		since, wasUp := up[c.name]
		switch {
		case c.up && !wasUp:
			up[c.name] = c.at
		case !c.up && wasUp:
			due := slices.MinFunc(slices.Collect(maps.Values(up)), time.Time.Compare).Add(r.delay)
			if next := last.Add(r.interval); flips > 0 && next.After(due) {
				due = next
			}
			delete(up, c.name)
			p.soonest = least(p.soonest, c.at.Sub(since))
			early := c.at.Sub(since) < r.delay-r.tolerance
			if flips > 0 {
				p.closest = least(p.closest, c.at.Sub(last))
				early = early || c.at.Sub(last) < r.interval-r.tolerance
			}
			if early {
				p.early++
			}
			p.lateness = append(p.lateness, c.at.Sub(due).Seconds())
			last = c.at
			flips++
		}
	}
	p.flips += flips
	p.amiss += max(flips-r.flips, r.flips-flips) - r.flips
}

// least of two durations, of which 0 is none.
func least(a, b time.Duration) time.Duration {
	return cmp.Or(min(a, b), a, b)
}
