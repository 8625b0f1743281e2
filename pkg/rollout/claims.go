// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

// Revision is a revision of a parent, and the children that its record claims.
type Revision struct {
	Name   string
	Claims []Child
	// Desires reports whether the hook desires a child for this revision.
	Desires func(Child) bool
}

// Claims are the revisions of the children of a parent.
type Claims struct {
	// desired are the children that the latest revision desires, in the order of the hook's answer.
	desired   []Child
	revisions int
	// of is the revision of each desired child that has one.
	of map[Child]int
}

const latest = 0

// NewClaims returns the claims of revisions, of which the first is the latest, on the children that the latest desires. A claim ends when its child is
// not desired any more, by the latest revision or by its own, or when an earlier revision of the list claims the child, too.
func NewClaims(revisions []Revision, desired []Child) *Claims {
	c := &Claims{desired: desired, revisions: len(revisions), of: make(map[Child]int, len(desired))}
	isDesired := make(map[Child]bool, len(desired))
	for _, child := range desired {
		isDesired[child] = true
	}
	for i, revision := range revisions {
		for _, child := range revision.Claims {
			if _, claimed := c.of[child]; !claimed && isDesired[child] && (i == latest || revision.Desires(child)) {
				c.of[child] = i
			}
		}
	}
	return c
}

// Of returns the revision of a child, and false if it has none: then it was never moved, or the record of its revision was deleted.
func (c *Claims) Of(child Child) (revision int, claimed bool) {
	revision, claimed = c.of[child]
	return revision, claimed
}

// Revisions returns the claims of each revision.
func (c *Claims) Revisions() [][]Child {
	claims := make([][]Child, c.revisions)
	for _, child := range c.desired {
		if revision, claimed := c.of[child]; claimed {
			claims[revision] = append(claims[revision], child)
		}
	}
	return claims
}

// Size returns how many children are desired.
func (c *Claims) Size() int { return len(c.desired) }

// onLatest returns how many children have the latest revision.
func (c *Claims) onLatest() (n int) {
	for _, revision := range c.of {
		if revision == latest {
			n++
		}
	}
	return n
}

func (c *Claims) isOnLatest(child Child) bool {
	revision, claimed := c.of[child]
	return claimed && revision == latest
}
