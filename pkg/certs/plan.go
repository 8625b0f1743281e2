// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package certs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Observed is all that is decided from. Nothing of it is changed.
type Observed struct {
	State State
	// Names are what the serving certificate is for.
	Names Names
	// Targets are all objects from which clients learn what to trust. The plan does not wait for one that is missing here.
	Targets   []Target
	Lifetimes Lifetimes
	Now       time.Time
}

// Plan is what to do, and when to look again if nothing happens before.
type Plan struct {
	// Steps change the Secrets. If there are any, look again as soon as they are stored.
	Steps []Step
	// Inject names the targets that must be given the bundle of the state that was observed.
	Inject []string
	// RequeueAfter is zero if there is nothing that time alone brings.
	RequeueAfter time.Duration
}

// Step is one of the types below. None holds a secret.
type Step interface{ String() string }

type (
	// CreateAuthority adds an authority to those that clients should trust.
	CreateAuthority struct{ Reason string }
	// IssueServing makes a new key and certificate to serve. Without an Authority, the one that was just created signs it.
	IssueServing struct {
		Authority Fingerprint
		Reason    string
	}
	// RecordDistribution notes that all targets carry an authority.
	RecordDistribution struct{ Authority Fingerprint }
	// ForgetKey throws away the key of an authority that will sign no more.
	ForgetKey struct{ Authority Fingerprint }
	// DropAuthority removes an authority from those that clients should trust.
	DropAuthority struct{ Authority Fingerprint }
)

func (s CreateAuthority) String() string { return "create an authority: " + s.Reason }
func (s IssueServing) String() string {
	if s.Authority == "" {
		return "issue a serving certificate by the new authority: " + s.Reason
	}
	return fmt.Sprintf("issue a serving certificate by authority %.8s: %s", s.Authority, s.Reason)
}
func (s RecordDistribution) String() string {
	return fmt.Sprintf("record that all targets carry authority %.8s", s.Authority)
}
func (s ForgetKey) String() string {
	return fmt.Sprintf("forget the key of authority %.8s", s.Authority)
}
func (s DropAuthority) String() string {
	return fmt.Sprintf("no longer trust authority %.8s", s.Authority)
}

// Decide is the table of states. Authorities overlap: the new one is trusted first, signs later, and the old one is
// trusted until all that it signed has expired.
func Decide(o Observed) Plan {
	plan := Plan{Inject: outdated(o)}
	issuer := o.State.issuer()
	if reason := unusable(o, issuer); reason != "" {
		plan.Steps = restore(o, reason)
		return plan
	}
	next := successor(o, issuer)
	plan.Steps = slices.Concat(rotate(o, issuer, next), renew(o, issuer, next), cleanUp(o, issuer, next))
	if len(plan.Steps) == 0 {
		plan.RequeueAfter = untilNext(o, issuer, next)
	}
	return plan
}

// unusable returns why a client may reject the serving certificate, "" if none does.
func unusable(o Observed, issuer *Authority) string {
	switch {
	case o.State.Serving == nil && len(o.State.Problems) > 0:
		return strings.Join(o.State.Problems, "; ")
	case o.State.Serving == nil:
		return "there is no serving certificate"
	case issuer == nil:
		return "no authority in the Secret has signed the serving certificate"
	case !validFor(o, o.State.Serving.Certificate) || !validFor(o, issuer.Certificate):
		return "the serving certificate has expired, or is not valid yet"
	default:
		return ""
	}
}

// restore makes a serving certificate immediately: there is none that clients would accept, so nothing can break. An
// authority that clients trust already is the best to sign it.
func restore(o Observed, reason string) []Step {
	var best *Authority
	for i := range o.State.Authorities {
		if a := &o.State.Authorities[i]; a.Key.exists() && validFor(o, a.Certificate) && (best == nil || trust(o, a) > trust(o, best)) {
			best = a
		}
	}
	if best == nil {
		return []Step{CreateAuthority{reason}, IssueServing{Reason: reason}}
	}
	return []Step{IssueServing{best.id(), reason}}
}

// trust orders authorities by the number of clients that are expected to trust them.
func trust(o Observed, a *Authority) int {
	switch {
	case trusted(o, a):
		return 2
	case carriedByAll(o, a):
		return 1
	default:
		return 0
	}
}

// successor returns the newest authority that can take over from the issuer; nil if there is none.
func successor(o Observed, issuer *Authority) *Authority {
	var next *Authority
	for i := range o.State.Authorities {
		a := &o.State.Authorities[i]
		if a != issuer && a.Key.exists() && validFor(o, a.Certificate) && o.Now.Before(renewalTime(a.Certificate)) &&
			(next == nil || a.Certificate.NotBefore.After(next.Certificate.NotBefore)) {
			next = a
		}
	}
	return next
}

// rotate goes one step on the way from one authority to the next.
func rotate(o Observed, issuer, next *Authority) []Step {
	switch {
	case next == nil && !issuer.Key.exists():
		return []Step{CreateAuthority{"the key of the present one is not there"}}
	case next == nil && !o.Now.Before(renewalTime(issuer.Certificate)):
		return []Step{CreateAuthority{"two thirds of the life of the present one are over"}}
	case next == nil:
		return nil
	case trusted(o, next):
		return []Step{IssueServing{next.id(), "all clients trust the new authority"}}
	case !recorded(o, next) && carriedByAll(o, next):
		return []Step{RecordDistribution{next.id()}}
	default:
		return nil
	}
}

// renew replaces the serving certificate under the same authority.
func renew(o Observed, issuer, next *Authority) []Step {
	switch serving := o.State.Serving.Certificate; {
	case !issuer.Key.exists() || next != nil && trusted(o, next):
		return nil // the next authority does it
	case !o.Names.match(serving):
		return []Step{IssueServing{issuer.id(), "the names have changed"}}
	case !o.Now.Before(renewalTime(serving)) && extends(o, issuer):
		return []Step{IssueServing{issuer.id(), "two thirds of its life are over"}}
	default:
		return nil
	}
}

// cleanUp forgets the keys that will sign no more, and the authorities of which nothing can be in use.
func cleanUp(o Observed, issuer, next *Authority) []Step {
	var steps []Step
	for i := range o.State.Authorities {
		switch a := &o.State.Authorities[i]; {
		case a == issuer && next != nil && trusted(o, next) && a.Key.exists():
			steps = append(steps, ForgetKey{a.id()})
		case a == issuer || a == next:
		case !o.Now.Before(dropTime(o, a)):
			steps = append(steps, DropAuthority{a.id()})
		case a.Key.exists():
			steps = append(steps, ForgetKey{a.id()})
		}
	}
	return steps
}

// untilNext is the time until the clock alone changes the decision.
func untilNext(o Observed, issuer, next *Authority) time.Duration {
	serving := o.State.Serving.Certificate
	times := []time.Time{serving.NotAfter.Add(-o.Lifetimes.apart())}
	if issuer.Key.exists() && extends(o, issuer) {
		times = append(times, renewalTime(serving))
	}
	switch {
	case next == nil:
		times = append(times, renewalTime(issuer.Certificate))
	case recorded(o, next):
		times = append(times, next.Distributed.Add(o.Lifetimes.wait()), renewalTime(next.Certificate))
	default:
		times = append(times, renewalTime(next.Certificate))
	}
	for i := range o.State.Authorities {
		if a := &o.State.Authorities[i]; a != issuer && a != next {
			times = append(times, dropTime(o, a))
		}
	}
	var first time.Duration
	for _, at := range times {
		if wait := at.Sub(o.Now); wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}
