// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

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

// A hook is called after each change of a parent or of a child, also after the changes that its own answer has caused. Usually the next
// answer then leaves nothing to do, or is the next of a few steps. A hook that always answers differently, with the time for example, would
// be called and followed in a hot loop. So answers are counted that follow only the effects of the answer before.

const (
	// minResyncAfter is the minimum of the resyncAfterSeconds of a hook. A shorter one is extended.
	minResyncAfter = 500 * time.Millisecond
	// maxFresh is how many answers in a row count as one if each creates or changes a child that none before has, and deletes none of those: a
	// hook that creates one child after the other comes to an end.
	maxFresh = 20
)

// answerHistory is what is known of the answers since the last one that left nothing to do. The zero value is none.
type answerHistory struct {
	// answer is a hash of the last answer, and count counts them.
	answer uint64
	count  controller.RewriteBackoff
	fresh  int
	// followed are the children that the answers have caused writes of, as hashes, while that matters.
	followed map[uint64]struct{}
	// wrote are those of the last answer, and wroteParent reports whether it has caused a write of the status. Then written is the resourceVersion that the
	// parent had afterwards, if others share its status; otherwise "".
	wrote       map[uint64]struct{}
	wroteParent bool
	written     string
	// others is a hash of the versions of parent and children that the last answer has not changed.
	others   uint64
	reported bool
}

// throttle delays the plan if answers like this one were followed too often. What is left of the plan is recorded as followed.
func (p *plan) throttle(o observed) {
	h := p.history.answers
	switch {
	case p.removeFinalizer:
		return // it comes to an end
	case len(p.steps) == 0 && !p.writesParent():
		if !p.delayed {
			p.history.answers = answerHistory{}
		}
		return
	}
	if p.rollout != nil && p.rollout.Moved != nil {
		h = answerHistory{} // a rolling update comes to an end: no child is moved twice to one revision
	}
	counts := h.wrote == nil || o.sum != h.answer
	if h.isOutdated(o) {
		h.count, counts = h.count.Ease(), false
	}
	wait := h.count.Wait(o.now)
	if o.sum == h.answer {
		wait = 0 // changes of others are repaired, and failed writes are tried again
	}
	problem := p.neverSettles(o)
	if wait > 0 {
		p.records, p.steps, p.metadata, p.status, p.delayed = nil, nil, nil, nil, true
		p.requeue(wait)
	} else {
		h = h.after(p, o, counts)
	}
	if h.count.Slowed(o.now) {
		if p.problem = problem; !h.reported {
			p.newProblem = problem
		}
		h.reported = true
	}
	p.history.answers = h
}

// isOutdated reports whether an object has changed that the last answer did not write. What others make of the written objects does not count.
func (h answerHistory) isOutdated(o observed) bool {
	wroteParent := h.wroteParent && (h.written == "" || h.written == o.parent.GetResourceVersion())
	return h.wrote != nil && h.others != othersOf(o, h.wrote, wroteParent)
}

// after returns the history after the plan was applied.
func (h answerHistory) after(p *plan, o observed, counts bool) answerHistory {
	wrote, isFresh, replaces := make(map[uint64]struct{}, len(p.steps)), false, false
	followed := maps.Clone(h.followed)
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
	if counts && isFresh && !replaces && !h.count.Slowed(o.now) {
		h.fresh++
		counts = h.fresh%maxFresh == 0
	}
	if counts {
		h.count = h.count.Add(o.now)
	} else {
		h.count = h.count.Touch(o.now)
	}
	if h.count.Slowed(o.now) {
		followed = nil
	}
	h.answer, h.followed, h.wrote, h.wroteParent, h.written = o.sum, followed, wrote, p.writesParent(), ""
	h.others = othersOf(o, wrote, h.wroteParent)
	return h
}

func (k childKey) hash() uint64 { return maphash.Comparable(seed, k) }

// othersOf returns a hash of the versions of what is observed, related objects included, without what was written.
func othersOf(o observed, wrote map[uint64]struct{}, wroteParent bool) (sum uint64) {
	sum = o.related
	if !wroteParent {
		sum ^= maphash.String(seed, o.parent.GetResourceVersion())
	}
	for key, child := range o.children {
		if len(wrote) > 0 {
			if _, own := wrote[key.hash()]; own {
				continue
			}
		}
		sum ^= versionHash(child)
	}
	return sum
}

// neverSettles returns the problem of a parent whose hook answers differently each time. It names kinds: names may differ each time.
func (p *plan) neverSettles(o observed) *Problem {
	var in []string
	if p.metadata != nil {
		in = append(in, "the labels or annotations")
	}
	if p.status != nil {
		in = append(in, "the status")
	}
	kinds := map[string]struct{}{}
	for _, step := range p.steps {
		kinds[step.child.kind] = struct{}{}
	}
	in = append(in, slices.Sorted(maps.Keys(kinds))...)
	return &Problem{v1alpha1.ReasonNeverSettles, fmt.Sprintf(
		"for the parent %s the hook answers differently each time, in %s, though nothing has changed except by its own answers: "+
			"they are followed ever more rarely, at last every %s, until the spec of the parent changes or an answer leaves nothing to do; "+
			"let the hook answer the same to the same request", nameIn(o.parent), strings.Join(in, ", "), controller.MaxRewriteBackoff)}
}
