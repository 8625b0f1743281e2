// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// A hook is called after each change of a parent or of a child, also after those that its own answer has led to. The answer then is
// that nothing is left to be done, or the next one of a few steps. A hook that always answers something else, such as the time, would be
// followed as fast as it can be called. So the answers are counted that came after nothing but what the answer before has led to.

const (
	// minResyncAfter is the least resyncAfterSeconds of a hook, whatever it says.
	minResyncAfter = 500 * time.Millisecond
	// maxFresh is how many answers in a row count as one while each creates or changes a child that none before has, and deletes none of those: a hook
	// that sees to one child after the other comes to an end.
	maxFresh = 20
)

// settling is what is known of the answers since the last one that left nothing to be done. The zero value is none.
type settling struct {
	// answer is a hash of the last one, and answers is how many there were.
	answer  uint64
	answers controller.RewriteBackoff
	fresh   int
	// followed are the children that the answers have led to writes of, as hashes, while that matters.
	followed map[uint64]struct{}
	// wrote are those of the last answer, and wroteStatus reports whether that led to a status.
	wrote       map[uint64]struct{}
	wroteStatus bool
	// others is a hash of the versions of parent and children that the last answer has left alone.
	others   uint64
	reported bool
}

// pace holds the plan back where answers like this one have been followed too often. What is left of the plan counts as followed.
func (p *plan) pace(o observation) {
	s := p.memory.settling
	switch {
	case p.removeFinalizer:
		return // it comes to an end
	case len(p.steps) == 0 && p.status == nil:
		if !p.held {
			p.memory.settling = settling{}
		}
		return
	}
	counts := s.wrote == nil || o.answer != s.answer
	if s.isOld(o) {
		s.answers, counts = s.answers.Ease(), false
	}
	wait := s.answers.Wait(o.now)
	if o.answer == s.answer {
		wait = 0 // what others have changed is put right, and what has failed is tried again
	}
	wrong := p.neverSettles(o)
	if wait > 0 {
		p.steps, p.status, p.held = nil, nil, true
		p.requeue(wait)
	} else {
		s = s.follow(p, o, counts)
	}
	if s.answers.Slowed(o.now) {
		if p.problem = wrong; !s.reported {
			p.restless = wrong
		}
		s.reported = true
	}
	p.memory.settling = s
}

// isOld reports whether something has changed that the last answer has not: its writes, and what others make of what was written, do not count.
func (s settling) isOld(o observation) bool {
	return s.wrote != nil && s.others != othersOf(o, s.wrote, s.wroteStatus)
}

// follow is what is known once the plan is carried out.
func (s settling) follow(p *plan, o observation, counts bool) settling {
	wrote, isFresh, replaces := make(map[uint64]struct{}, len(p.steps)), false, false
	followed := maps.Clone(s.followed)
	if followed == nil {
		followed = make(map[uint64]struct{}, len(p.steps))
	}
	for _, step := range p.steps {
		child := step.child.hash()
		wrote[child] = struct{}{}
		_, again := followed[child]
		isFresh = isFresh || !again && step.verb != verbDelete
		replaces = replaces || again && step.verb == verbDelete
		followed[child] = struct{}{}
	}
	if counts && isFresh && !replaces && !s.answers.Slowed(o.now) {
		s.fresh++
		counts = s.fresh%maxFresh == 0
	}
	if counts {
		s.answers = s.answers.Add(o.now)
	} else {
		s.answers = s.answers.Touch(o.now)
	}
	if s.answers.Slowed(o.now) {
		followed = nil
	}
	s.answer, s.followed, s.wrote, s.wroteStatus = o.answer, followed, wrote, p.status != nil
	s.others = othersOf(o, wrote, s.wroteStatus)
	return s
}

func (k childKey) hash() uint64 { return maphash.Comparable(seed, k) }

// othersOf is a hash of the versions of what is observed, without what was written.
func othersOf(o observation, wrote map[uint64]struct{}, wroteStatus bool) (sum uint64) {
	if !wroteStatus {
		sum = maphash.String(seed, o.parent.GetResourceVersion())
	}
	for key, child := range o.children {
		if _, own := wrote[key.hash()]; !own {
			sum ^= maphash.String(seed, string(child.GetUID())+" "+child.GetResourceVersion())
		}
	}
	return sum
}

// neverSettles is the problem of a parent whose hook has always something else to say. It names kinds, for names may differ each time.
func (p *plan) neverSettles(o observation) *problem {
	var in []string
	if p.status != nil {
		in = append(in, "the status")
	}
	kinds := map[string]struct{}{}
	for _, step := range p.steps {
		kinds[step.child.kind] = struct{}{}
	}
	in = append(in, slices.Sorted(maps.Keys(kinds))...)
	return &problem{v1alpha1.ReasonNeverSettles, fmt.Sprintf(
		"for the parent %s the hook answers otherwise each time, in %s, though nothing has changed but what its own answers have led to: "+
			"they are followed ever more rarely, at last every %s, until the spec of the parent changes or an answer leaves nothing to be done; "+
			"let the hook answer the same to the same request", nameIn(o.parent), strings.Join(in, ", "), controller.MaxRewriteBackoff)}
}
