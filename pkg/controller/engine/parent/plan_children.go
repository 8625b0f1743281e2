// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// desiredChild is a child in the answer of the hook, with its type.
type desiredChild struct {
	*hook.Child
	in  childType
	key childKey
}

// desiredChildren returns the children in an answer: type by type, the children of a type in the order of the answer.
func (spec *Spec) desiredChildren(children []hook.Child) []desiredChild {
	desired := make([]desiredChild, 0, len(children))
	for _, in := range spec.children {
		for i := range children {
			if child := &children[i]; child.Kind == in.Kind && child.APIVersion == in.apiVersion() {
				desired = append(desired, desiredChild{child, in, in.key(child.Namespace, child.Name)})
			}
		}
	}
	return desired
}

// planChildren plans deletions, then creations and updates, in the order of desiredChildren.
func (spec *Spec) planChildren(p *plan, o observed, update merger) {
	desired := spec.desiredChildren(o.answer.Children)
	keys := make(map[childKey]bool, len(desired))
	for _, child := range desired {
		keys[child.key] = true
	}
	p.planDeletions(spec, o, keys)
	c := &childPlanner{spec: spec, plan: p, observed: o, update: update, known: p.history.children}
	if c.known == nil {
		c.known = map[childKey]childHistory{}
	}
	p.history.children = make(map[childKey]childHistory, len(desired))
	if o.rolling != nil {
		c.planRolling(desired)
		return
	}
	for _, child := range desired {
		c.planOne(child)
	}
}

// childPlanner plans desired children. The plan gets the history of each.
type childPlanner struct {
	spec     *Spec
	plan     *plan
	observed observed
	update   merger
	// known is the history before.
	known map[childKey]childHistory
}

func (c *childPlanner) planOne(child desiredChild) {
	if err := c.spec.planChild(c.plan, c.observed, child, c.known[child.key], c.update); err != nil {
		c.plan.problems = append(c.plan.problems, fmt.Errorf("planning %s: %w", child.key, err))
	}
}

// planDeletions deletes the children that are not desired.
func (p *plan) planDeletions(spec *Spec, o observed, desired map[childKey]bool) {
	for key, child := range o.children {
		in := slices.IndexFunc(spec.children, func(t childType) bool { return t.Group == key.group && t.Kind == key.kind })
		if !desired[key] && !child.Deleting() && in >= 0 {
			p.steps = append(p.steps, childStep{verb: verbDelete, child: key, in: spec.children[in].Resource, uid: child.GetUID()})
		}
	}
	slices.SortFunc(p.steps, func(a, b childStep) int {
		return cmp.Or(cmp.Compare(a.in.Group, b.in.Group), cmp.Compare(a.child.kind, b.child.kind),
			cmp.Compare(a.child.namespace, b.child.namespace), cmp.Compare(a.child.name, b.child.name))
	})
}

// planChild plans one desired child. Objects are parsed only if something has changed.
func (spec *Spec) planChild(p *plan, o observed, child desiredChild, known childHistory, update merger) error {
	current, found := o.children[child.key]
	if found && current.Deleting() {
		p.history.children[child.key] = known // a child that terminates is created again once it is gone
		return nil
	}
	hash, err := merge.Hash(child.JSON)
	if err != nil {
		return fmt.Errorf("reading the desired object: %w", err)
	}
	if found && known.synced == (version{hash, current.GetResourceVersion()}) {
		p.history.children[child.key] = known
		return nil
	}
	as := version{desired: hash}
	if found {
		as.resourceVersion = current.GetResourceVersion()
	}
	if known.refused.version == as {
		p.history.children[child.key] = known
		return tooLarge(known.refused.text)
	}
	desired, err := spec.desiredTree(o.parent, child.Child)
	if err != nil {
		return err
	}
	if !found {
		return spec.planCreation(p, o, child, desired, hash, known)
	}
	tree, err := treeOf(current)
	if err != nil {
		return fmt.Errorf("reading the observed object: %w", err)
	}
	verdict, err := update(tree, desired)
	if err != nil {
		return err
	}
	if !verdict.Differs || child.in.method == v1alpha1.ChildUpdateOnDelete {
		p.history.children[child.key] = known.markSynced(version{hash, current.GetResourceVersion()}, o.now)
		return nil
	}
	return spec.planDifference(p, o, differingChild{child, current, tree, desired, hash, verdict}, known)
}

// planCreation creates a child. The hash is that of the child as the hook desires it.
func (spec *Spec) planCreation(p *plan, o observed, child desiredChild, desired map[string]any, hash uint64, known childHistory) error {
	object, err := spec.newChild(o.of, o.parent, desired)
	if err != nil {
		return err
	}
	step := childStep{verb: verbCreate, child: child.key, in: child.in.Resource, object: object, attempt: attempt{desired: hash}}
	p.addUnlessContested(step, known, known.existed, o.now)
	if known.foreign {
		p.requeue(foreignRetryInterval)
	}
	return nil
}

// differingChild is an observed child that is not as desired.
type differingChild struct {
	desiredChild
	observed      object
	tree, desired map[string]any
	hash          uint64 // of the child as the hook desires it
	verdict       merge.Verdict
}

// planDifference changes a child, unless its method is Recreate and a recreation would change nothing.
func (spec *Spec) planDifference(p *plan, o observed, child differingChild, known childHistory) error {
	step := childStep{verb: verbUpdate, child: child.key, in: child.in.Resource, uid: child.observed.GetUID(),
		resourceVersion: child.observed.GetResourceVersion(), object: child.verdict.Object, attempt: known.nextAttempt(child.hash, o.now)}
	if child.in.method != v1alpha1.ChildUpdateRecreate || child.verdict.RecordOnly {
		if err := checkAnnotations(step.object); err != nil {
			return err
		}
		p.planChange(step, known, o.now)
		return nil
	}
	step.verb, step.object, step.resourceVersion = verbRecreate, nil, ""
	created, err := spec.newChild(o.of, o.parent, child.desired)
	if err != nil {
		return err // it could not be created again
	}
	if !child.verdict.DesiredChanged {
		differs := differencesOf(child.tree, child.verdict.Object).sinceCreation(child.observed.GetGeneration())
		if len(differs) == 0 || known.futile == (recreation{child.hash, differs.hash()}) {
			p.leaveAsIs(child, known)
			return nil
		}
		step.trial = newTrial(created, child.Name, child.observed.GetResourceVersion(), differs)
	}
	p.planChange(step, known, o.now)
	return nil
}

// leaveAsIs does nothing about a child although it differs: a recreation would change nothing.
func (p *plan) leaveAsIs(child differingChild, known childHistory) {
	if !known.reported {
		p.stuck = append(p.stuck, child.key)
	}
	p.history.children[child.key] = childHistory{synced: version{child.hash, child.observed.GetResourceVersion()}, reported: true, futile: known.futile,
		existed: true, rewrites: known.rewrites}
}

// planChange changes a child that differs, with a backoff if the same change was made before and did not last.
func (p *plan) planChange(step childStep, known childHistory, now time.Time) {
	if step.attempt.times > 2 && !known.reported {
		p.stuck = append(p.stuck, step.child)
	}
	known.reported = step.attempt.times > 2 || known.reported && known.rewrites.Slowed(now)
	p.history.children[step.child] = known
	switch wait, never := known.wait(step.verb, step.attempt, now); {
	case never:
	case wait > 0:
		p.delayed = true
		p.requeue(wait)
	default:
		p.addUnlessContested(step, known, known.synced.desired == step.attempt.desired, now)
	}
}

// addUnlessContested adds a step. A repair of what another client changes back each time is added only after its backoff.
func (p *plan) addUnlessContested(step childStep, known childHistory, repairs bool, now time.Time) {
	step.repairs = repairs
	wait := known.rewrites.Wait(now)
	if !repairs || wait == 0 {
		p.steps = append(p.steps, step)
	} else {
		p.delayed = true
		p.requeue(wait)
	}
	if repairs && known.rewrites.Slowed(now) && !known.reported {
		known.reported = true
		p.stuck = append(p.stuck, step.child)
	}
	p.history.children[step.child] = known
}
