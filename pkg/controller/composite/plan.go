// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// merger tells what is to become of an observed object of which some fields are desired; merge.Update, for instance.
type merger func(observed, desired map[string]any) (merge.Verdict, error)

// observation is all that is decided from once the hook has answered. Nothing of it is changed.
type observation struct {
	// parent as the hook has seen it, but for our finalizer.
	parent   object
	selector labels.Selector
	// children that are the parent's, adopted ones included.
	children map[childKey]object
	memory   memory
	// answer is a hash of the answer.
	answer uint64
	// statusBy is the older CompositeController that writes the status of the parent, "" if none does.
	statusBy string
	now      time.Time
}

// plan is what to do: the steps, each whatever becomes of the others, then the status, and if all has succeeded, remove the finalizer.
type plan struct {
	removeFinalizer bool
	steps           []childStep
	// status to be written, nil where it is as it should be.
	status map[string]any
	// memory to keep, with what the steps teach added by memory.done.
	memory memory
	// requeueAfter is when to sync again if nothing happens before, if more than zero.
	requeueAfter time.Duration
	// stuck are children whose changes have turned out to lead nowhere since it was last told.
	stuck []childKey
	// problems are children that cannot be brought to what is desired. The others are.
	problems []error
	// held tells that something waits for its time that would otherwise be written.
	held bool
	// problem is what the author of the controller is to know, restless the same where it is new, and statusStuck tells that it has
	// turned out that the status does not last.
	problem, restless *problem
	statusStuck       bool
}

// verb is what is done to a child.
type verb string

const (
	verbCreate verb = "create"
	verbUpdate verb = "update"
	// verbRecreate deletes a child. A later sync, which no longer observes it, creates it.
	verbRecreate verb = "recreate"
	verbDelete   verb = "delete"
)

// childStep is one write. All but creations are guarded by the UID; updates by the resourceVersion too.
type childStep struct {
	verb            verb
	child           childKey
	in              resource
	uid             types.UID
	resourceVersion string
	// object to be written, with create and update. It shares trees with what was observed: read it only.
	object map[string]any
	try    try
	// trial comes before a recreation of which the child does not show whether it changes anything; nil where it does.
	trial *trial
	// repairs tells that it does again what was done before, because another client has changed it since.
	repairs bool
}

func (s childStep) String() string { return fmt.Sprintf("%s %s", s.verb, s.child) }

// unselected is that a desired child would not be found again: its labels do not match the parent's selector.
type unselected struct {
	child    string
	selector string
}

func (e *unselected) Error() string {
	return fmt.Sprintf("the labels of the desired %s do not match the selector of its parent, %q: nothing was changed", e.child, e.selector)
}

// conclude decides what an answer of a hook leads to. An error means that nothing of the answer is used.
func (r *rules) conclude(o observation, called phase, answer *hook.CompositeResponse, update merger) (plan, error) {
	for i := range answer.Children {
		if child := &answer.Children[i]; !o.selector.Matches(r.childLabels(o.parent, child)) {
			return plan{}, &unselected{child.String(), o.selector.String()}
		}
	}
	p := plan{
		memory: o.memory.of(o.parent, o.now),
		// Only the answer to a request that was finalizing can say that it has finished.
		removeFinalizer: called == phaseFinalize && answer.Finalized && hasFinalizer(o.parent, r.finalizer),
		requeueAfter:    resyncAfter(answer),
	}
	if p.removeFinalizer && o.parent.Deleting() {
		p.requeueAfter = 0
		return p, nil // there is soon no parent, and the garbage collector has the children
	}
	if r.manages(o.parent) {
		r.planChildren(&p, o, answer.Children, update)
	} else {
		p.memory.children = nil
	}
	status, err := statusOf(o.parent, answer.Status)
	if err != nil {
		return plan{}, err
	}
	p.planStatus(o, status)
	p.pace(o)
	return p, nil
}

// wantedChild is a desired child with its type.
type wantedChild struct {
	*hook.Child
	in  childType
	key childKey
}

// planChildren deletes what is desired no more, then creates and updates: type by type, those of a type as the hook lists them.
func (r *rules) planChildren(p *plan, o observation, children []hook.Child, update merger) {
	desired := make([]wantedChild, 0, len(children))
	keys := make(map[childKey]bool, len(children))
	for _, in := range r.children {
		for i := range children {
			if child := &children[i]; child.Kind == in.Kind && child.APIVersion == in.apiVersion() {
				key := in.key(child.Namespace, child.Name)
				desired = append(desired, wantedChild{child, in, key})
				keys[key] = true
			}
		}
	}
	p.planDeletions(r, o, keys)
	known := p.memory.children
	p.memory.children = make(map[childKey]childMemory, len(desired))
	for _, child := range desired {
		if err := r.planChild(p, o, child, known[child.key], update); err != nil {
			p.problems = append(p.problems, fmt.Errorf("planning %s: %w", child.key, err))
		}
	}
}

func (p *plan) planDeletions(r *rules, o observation, desired map[childKey]bool) {
	for key, child := range o.children {
		in := slices.IndexFunc(r.children, func(t childType) bool { return t.Group == key.group && t.Kind == key.kind })
		if !desired[key] && !child.Deleting() && in >= 0 {
			p.steps = append(p.steps, childStep{verb: verbDelete, child: key, in: r.children[in].resource, uid: child.GetUID()})
		}
	}
	slices.SortFunc(p.steps, func(a, b childStep) int {
		return cmp.Or(cmp.Compare(a.in.Group, b.in.Group), cmp.Compare(a.child.kind, b.child.kind),
			cmp.Compare(a.child.namespace, b.child.namespace), cmp.Compare(a.child.name, b.child.name))
	})
}

// planChild decides about one desired child. What costs time is done only if something is new.
func (r *rules) planChild(p *plan, o observation, child wantedChild, known childMemory, update merger) error {
	observed, found := o.children[child.key]
	if found && observed.Deleting() {
		p.memory.children[child.key] = known // of what was tried; the child is created anew once it has gone
		return nil
	}
	hash, err := merge.Hash(child.JSON)
	if err != nil {
		return fmt.Errorf("reading the desired object: %w", err)
	}
	if found && known.settled == (version{hash, observed.GetResourceVersion()}) {
		p.memory.children[child.key] = known
		return nil
	}
	as := version{desired: hash}
	if found {
		as.resourceVersion = observed.GetResourceVersion()
	}
	if known.refused.version == as {
		p.memory.children[child.key] = known
		return &tooLargeError{known.refused.text}
	}
	desired, err := r.desiredTree(o.parent, child.Child)
	if err != nil {
		return err
	}
	if !found {
		object, err := r.newChild(o.parent, desired)
		if err == nil {
			step := childStep{verb: verbCreate, child: child.key, in: child.in.resource, object: object, try: try{desired: hash}}
			p.rewrite(step, known, known.existed, o.now)
			if known.taken {
				p.requeue(takenRetry)
			}
		}
		return err
	}
	tree, err := treeOf(observed)
	if err != nil {
		return fmt.Errorf("reading the observed object: %w", err)
	}
	verdict, err := update(tree, desired)
	if err != nil {
		return err
	}
	if !verdict.Differs || child.in.method == v1alpha1.ChildUpdateOnDelete {
		p.memory.children[child.key] = known.settle(version{hash, observed.GetResourceVersion()}, o.now)
		return nil
	}
	return r.planDifference(p, o, differing{child, observed, tree, desired, hash, verdict}, known)
}

// differing is an observed child that is not as desired.
type differing struct {
	wantedChild
	observed      object
	tree, desired map[string]any
	hash          uint64 // of what the hook desires
	verdict       merge.Verdict
}

// planDifference changes a child, unless it is to be created again and that would change nothing.
func (r *rules) planDifference(p *plan, o observation, child differing, known childMemory) error {
	step := childStep{verb: verbUpdate, child: child.key, in: child.in.resource, uid: child.observed.GetUID(),
		resourceVersion: child.observed.GetResourceVersion(), object: child.verdict.Object, try: known.next(child.hash, o.now)}
	if child.in.method != v1alpha1.ChildUpdateRecreate || child.verdict.RecordOnly {
		if err := checkAnnotations(step.object); err != nil {
			return err
		}
		p.planChange(step, known, o.now)
		return nil
	}
	step.verb, step.object, step.resourceVersion = verbRecreate, nil, ""
	created, err := r.newChild(o.parent, child.desired)
	if err != nil {
		return err // it could not be created again
	}
	if !child.verdict.DesiredChanged {
		differs := differencesOf(child.tree, child.verdict.Object).sinceCreation(child.observed.GetGeneration())
		if len(differs) == 0 || known.futile == (recreation{child.hash, differs.hash()}) {
			p.leave(child, known)
			return nil
		}
		step.trial = newTrial(created, child.Name, child.observed.GetResourceVersion(), differs)
	}
	p.planChange(step, known, o.now)
	return nil
}

// leave a child as it is, though it differs: to create it again changes nothing.
func (p *plan) leave(child differing, known childMemory) {
	if !known.told {
		p.stuck = append(p.stuck, child.key)
	}
	p.memory.children[child.key] = childMemory{settled: version{child.hash, child.observed.GetResourceVersion()}, told: true, futile: known.futile,
		existed: true, rewrites: known.rewrites}
}

// planChange changes a child that differs, unless the same was tried before and has led nowhere.
func (p *plan) planChange(step childStep, known childMemory, now time.Time) {
	if step.try.times > 2 && !known.told {
		p.stuck = append(p.stuck, step.child)
	}
	known.told = step.try.times > 2 || known.told && known.rewrites.Slowed(now)
	p.memory.children[step.child] = known
	switch wait, never := known.wait(step.verb, step.try, now); {
	case never:
	case wait > 0:
		p.held = true
		p.requeue(wait)
	default:
		p.rewrite(step, known, known.settled.desired == step.try.desired, now)
	}
}

// rewrite takes the step, unless it repairs what another client changes back each time, and it is too soon for that.
func (p *plan) rewrite(step childStep, known childMemory, repairs bool, now time.Time) {
	step.repairs = repairs
	wait := known.rewrites.Wait(now)
	if !repairs || wait == 0 {
		p.steps = append(p.steps, step)
	} else {
		p.held = true
		p.requeue(wait)
	}
	if repairs && known.rewrites.Slowed(now) && !known.told {
		known.told = true
		p.stuck = append(p.stuck, step.child)
	}
	p.memory.children[step.child] = known
}

// requeue asks for a sync then, or earlier.
func (p *plan) requeue(after time.Duration) {
	if p.requeueAfter == 0 || after < p.requeueAfter {
		p.requeueAfter = after
	}
}
