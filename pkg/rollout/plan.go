// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import "fmt"

// Presence is whether a child is there.
type Presence int

// The presences of a child.
const (
	Missing Presence = iota
	Terminating
	Present
)

// Children is what is observed of the children of an Order.
type Children interface {
	Presence(child int) Presence
	// Matches reports whether a child that is present needs no change to be as a revision desires it.
	Matches(revision, child int) bool
	// IsOutdated reports whether the record of a revision that claims a child does not count, because the child was last updated to something else. It
	// is called for a child that is present and does not match the revision.
	IsOutdated(revision, child int) bool
	// Unready returns why a child that is present is not ready, and "" for a ready one.
	Unready(child int) string
}

// State is where a rolling update stands.
type State struct {
	// Latest is the name of the latest revision, OnLatest how many of all desired children have it.
	Latest        string
	OnLatest, All int
	// Moved is the child that is moved to the latest revision now, nil if none is.
	Moved *Child
	// Waiting is why no child is moved although not all have the latest revision.
	Waiting string
}

// Settle moves to the latest revision the children for which that changes nothing, or that are not there and have no other revision. A child that is not as
// its revision desires it, but as another one does, gets that, and one whose record is outdated gets none: a repair would undo an update.
func (c *Claims) Settle(observed Children) {
	for child, revision := range c.of {
		if revision == latest {
			continue
		}
		if observed.Presence(child) != Present {
			if revision == unclaimed {
				c.of[child] = latest
			}
		} else if observed.Matches(latest, child) {
			c.of[child] = latest
		} else if revision != unclaimed && !observed.Matches(revision, child) {
			c.of[child] = c.corrected(observed, child, revision)
		}
	}
}

// corrected returns the older revision that a child is as desired by, or else its own, unless the record of that is outdated.
func (c *Claims) corrected(observed Children, child, own int) int {
	for i := latest + 1; i < len(c.revisions); i++ {
		if i != own && c.revisions[i].Desires(child) && observed.Matches(i, child) {
			return i
		}
	}
	if observed.IsOutdated(own, child) {
		return unclaimed
	}
	return own
}

// Advance moves the next child to the latest revision, if every child of that is present, as it is desired, and ready.
func (c *Claims) Advance(observed Children) State {
	state := State{OnLatest: c.onLatest(), All: c.Len()}
	if state.OnLatest == state.All {
		return state
	}
	for child, revision := range c.of {
		if revision != latest {
			continue
		}
		if reason := hindrance(observed, child); reason != "" {
			state.Waiting = fmt.Sprintf("%s %s", c.children[child], reason)
			return state
		}
	}
	next := c.next(observed)
	c.of[next] = latest
	state.OnLatest++
	state.Moved = &c.children[next]
	return state
}

// hindrance returns why a child of the latest revision keeps others waiting, "" if it does not.
func hindrance(observed Children, child int) string {
	switch observed.Presence(child) {
	case Missing:
		return "is not there yet"
	case Terminating:
		return "is being deleted"
	}
	if !observed.Matches(latest, child) {
		return "is not updated yet"
	}
	return observed.Unready(child)
}

// next returns the first child that is to be moved: one that is disturbed already, so that no second one is, or else the first of all. At least one child
// has not the latest revision.
func (c *Claims) next(observed Children) int {
	first := unclaimed
	for child, revision := range c.of {
		switch {
		case revision == latest:
			continue
		case isDisturbed(observed, child, revision):
			return child
		case first == unclaimed:
			first = child
		}
	}
	return first
}

// isDisturbed reports whether a child is away, is not as its revision desires it, or is not ready.
func isDisturbed(observed Children, child, revision int) bool {
	return observed.Presence(child) != Present || revision != unclaimed && !observed.Matches(revision, child) || observed.Unready(child) != ""
}
