// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/rollout"
)

// merger merges desired fields into an observed object, as merge.Update does.
type merger func(observed, desired map[string]any) (merge.Verdict, error)

// plan is what to do: the steps, each whatever the result of the others is, then the status, and if all has succeeded, the finalizer.
type plan struct {
	removeFinalizer bool
	// records are the writes of ControllerRevisions. They precede the steps, which are not begun when one fails.
	records []childStep
	steps   []childStep
	// rollout is where the rolling update stands, nil if no children roll.
	rollout *rollout.State
	// claims are the revisions of the children, nil without a rollout.
	claims *rollout.Claims
	// metadata is the change of the labels and annotations of a target, nil if they are up to date.
	metadata *metadataChange
	// status to be written, nil if it is up to date.
	status map[string]any
	// history to keep. The results of the steps are added to it.
	history history
	// requeueAfter is the delay until the next sync if no event comes earlier, 0 for none.
	requeueAfter time.Duration
	// stuck are children for which it was found, since that was last reported, that changes do not last.
	stuck []childKey
	// problems are why some children cannot be brought to what is desired. The others are.
	problems []error
	// delayed reports whether a write has to wait that is due otherwise.
	delayed bool
	// problem is what the author of the hook has to know. newProblem is the same if it was not reported before.
	problem, newProblem *Problem
	// statusStuck and metadataStuck report whether it was found, since that was last reported, that the status, or the labels and annotations, do
	// not last.
	statusStuck, metadataStuck bool
}

// verb is what is done to a child.
type verb string

const (
	verbCreate verb = "create"
	verbUpdate verb = "update"
	// verbRecreate deletes a child. A later sync, which does not observe it any more, creates it.
	verbRecreate verb = "recreate"
	verbDelete   verb = "delete"
)

// childStep is one write. All but creations have the UID as a precondition; updates the resourceVersion too.
type childStep struct {
	verb            verb
	child           childKey
	in              Resource
	uid             types.UID
	resourceVersion string
	// object to be created or updated. It shares trees with observed objects: it is read only.
	object  map[string]any
	attempt attempt
	// desired is what the written object is compared with; nil if it is not.
	desired map[string]any
	// serverSide reports whether it is a server-side apply.
	serverSide bool
	// switched reports whether the other strategy has written the child last.
	switched bool
	// orRecreate reports whether an update becomes a recreation if it removes a field, and with server-side apply if it changes any value.
	orRecreate bool
	// observed is the child that a server-side apply would change; nil if it does not matter whether it would.
	observed map[string]any
	// trial precedes a recreation if the child does not show whether it would change anything; nil otherwise.
	trial *trial
	// repairs reports whether the step repeats an earlier one that another client has undone.
	repairs bool
}

func (s childStep) String() string { return fmt.Sprintf("%s %s", s.verb, s.child) }

// unselectedError is the error of a desired child whose labels the selector of its parent does not match. It would not be found again.
type unselectedError struct {
	child    string
	selector string
}

func (e *unselectedError) Error() string {
	return fmt.Sprintf("the labels of the desired %s do not match the selector of its parent, %q: nothing was changed", e.child, e.selector)
}

// decide returns the plan that follows from what was observed. After an error nothing of the answer is used.
func (spec *Spec) decide(o observed, update merger) (plan, error) {
	for i := range o.answer.Children {
		if child := &o.answer.Children[i]; !spec.selects(o, child) {
			return plan{}, &unselectedError{child.String(), o.selector.String()}
		}
	}
	p := plan{
		history: o.history.of(o.parent, o.now),
		// Only the answer of a finalize hook can declare the finalization complete.
		removeFinalizer: o.called == phaseFinalize && o.isFinalized() && hasFinalizer(o.parent, spec.finalizer),
		requeueAfter:    o.resyncAfter(),
	}
	if p.removeFinalizer && o.parent.Deleting() {
		p.requeueAfter = 0
		return p, nil // the parent is gone soon, and the garbage collector deletes the children
	}
	if spec.managesChildren(o.parent) {
		spec.planChildren(&p, o, update)
		if err := p.planRecords(spec, o); err != nil {
			return plan{}, err
		}
	} else {
		p.history.children = nil
	}
	if err := p.planMetadata(o); err != nil {
		return plan{}, err
	}
	status, err := spec.statusOf(o)
	if err == nil && p.rollout != nil && !o.of.isOfKubernetes() {
		err = setUpdated(status, p.rollout, o)
	}
	if err != nil {
		return plan{}, err
	}
	p.planStatus(o, status)
	p.throttle(o)
	return p, nil
}

// selects reports whether the selector of the parent selects a desired child.
func (spec *Spec) selects(o observed, child *hook.Child) bool {
	if spec.kind != Composite || spec.generateSelector && !child.Labels.Has(labelControllerUID) {
		return true // it gets what is selected
	}
	return o.selector.Matches(child.Labels)
}

// isEmpty reports whether the plan has nothing to do until something is observed.
func (p *plan) isEmpty(resyncAfter time.Duration) bool {
	return !p.removeFinalizer && len(p.records) == 0 && len(p.steps) == 0 && !p.writesParent() && !p.delayed && len(p.stuck) == 0 && len(p.problems) == 0 &&
		p.problem == nil && p.requeueAfter == resyncAfter
}

// writesParent reports whether the plan writes the parent, apart from the finalizer.
func (p *plan) writesParent() bool { return p.status != nil || p.metadata != nil }

// requeue shortens requeueAfter to a delay.
func (p *plan) requeue(after time.Duration) {
	if p.requeueAfter == 0 || after < p.requeueAfter {
		p.requeueAfter = after
	}
}
