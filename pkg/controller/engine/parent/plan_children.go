// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/merge"
)

// planChildren plans deletions, then creations and updates, in the order of the desired children.
func (spec *Spec) planChildren(p *plan, o observed, update merger) {
	c := &childPlanner{spec: spec, plan: p, observed: o, update: update}
	if p.history.children = maps.Clone(p.history.children); p.history.children == nil {
		p.history.children = make(childHistories, len(o.answer.desired.list))
	}
	if c.findChildren(o.answer.desired.list) {
		c.dropOthers(o.answer.desired.places())
	}
	if o.rolling != nil {
		c.planRolling()
		return
	}
	for place := range o.answer.desired.list {
		c.planOne(&o.answer.desired.list[place], place)
	}
}

// childPlanner plans desired children.
type childPlanner struct {
	spec     *Spec
	plan     *plan
	observed observed
	update   merger
	// current and known are the observed children and what is known of them, by their places among those that the answer desires; nil for none.
	current []object
	known   []*childHistory
}

// findChildren finds the desired children among the observed ones and in the history. It reports whether others are there, too.
func (c *childPlanner) findChildren(desired []desiredChild) (others bool) {
	c.current, c.known = make([]object, len(desired)), make([]*childHistory, len(desired))
	present, remembered := 0, 0
	for place := range desired {
		key := desired[place].key()
		if c.current[place] = c.observed.children[key]; c.current[place] != nil {
			present++
		}
		if c.known[place] = c.plan.history.children[key]; c.known[place] != nil {
			remembered++
		}
	}
	return present < len(c.observed.children) || remembered < len(c.plan.history.children)
}

// dropOthers deletes and forgets the children that are not desired.
func (c *childPlanner) dropOthers(desired map[childKey]int) {
	maps.DeleteFunc(c.plan.history.children, func(key childKey, _ *childHistory) bool { return !has(desired, key) })
	c.plan.planDeletions(c.spec, c.observed, desired)
}

// planOne plans a child that has a place among those that the answer desires.
func (c *childPlanner) planOne(child *desiredChild, place int) {
	var known childHistory
	if c.known[place] != nil {
		known = *c.known[place]
	}
	if err := c.planChild(child, c.current[place], known); err != nil {
		c.plan.problems = append(c.plan.problems, fmt.Errorf("planning %s: %w", child.key(), err))
	}
}

func has(places map[childKey]int, key childKey) bool {
	_, found := places[key]
	return found
}

// planDeletions deletes the children that are not desired.
func (p *plan) planDeletions(spec *Spec, o observed, desired map[childKey]int) {
	for key, child := range o.children {
		if has(desired, key) || child.Deleting() {
			continue
		}
		if in := slices.IndexFunc(spec.children, func(t childType) bool { return t.Group == key.group && t.Kind == key.kind }); in >= 0 {
			p.steps = append(p.steps, childStep{verb: verbDelete, child: key, in: spec.children[in].Resource, uid: child.GetUID()})
		}
	}
	slices.SortFunc(p.steps, func(a, b childStep) int {
		return cmp.Or(cmp.Compare(a.in.Group, b.in.Group), cmp.Compare(a.child.kind, b.child.kind),
			cmp.Compare(a.child.namespace, b.child.namespace), cmp.Compare(a.child.name, b.child.name))
	})
}

// planChild plans one desired child, whose observed object is nil if there is none. Objects are parsed only if something has changed.
func (c *childPlanner) planChild(child *desiredChild, current object, known childHistory) error {
	switch {
	case current != nil && current.Deleting():
		return nil // it is created again once it is gone
	case child.err != nil:
		return fmt.Errorf("reading the desired object: %w", child.err)
	}
	as := version{desired: child.hash}
	if current != nil {
		as.resourceVersion = current.GetResourceVersion()
	}
	switch {
	case current != nil && known.synced == as:
		return nil
	case known.refused.version == as:
		return tooLarge(known.refused.text)
	}
	desired, err := c.spec.desiredTree(c.observed.parent, child.Child)
	if err != nil {
		return err
	}
	if current == nil {
		return c.planCreation(child, desired, known)
	}
	tree, err := treeOf(current)
	if err != nil {
		return fmt.Errorf("reading the observed object: %w", err)
	}
	verdict, err := c.update(tree, desired)
	if err != nil {
		return err
	}
	if !verdict.Differs || child.in.method == v1alpha1.ChildUpdateOnDelete {
		c.plan.history.children.set(child.key(), known.markSynced(as, c.observed.now))
		return nil
	}
	return c.planDifference(differingChild{child, current, tree, desired, verdict}, known)
}

// planCreation creates a child.
func (c *childPlanner) planCreation(child *desiredChild, desired map[string]any, known childHistory) error {
	object, err := c.spec.newChild(c.observed.of, c.observed.parent, desired)
	if err != nil {
		return err
	}
	step := childStep{verb: verbCreate, child: child.key(), in: child.in.Resource, object: object, attempt: attempt{desired: child.hash},
		serverSide: c.spec.serverSide}
	if c.spec.comparesWritten(child.in) {
		step.desired = desired
	}
	c.plan.addUnlessContested(step, known, known.existed, c.observed.now)
	if known.foreign {
		c.plan.requeue(foreignRetryInterval)
	}
	return nil
}

// differingChild is an observed child that is not as desired.
type differingChild struct {
	*desiredChild
	observed      object
	tree, desired map[string]any
	verdict       merge.Verdict
}

// planDifference changes a child, unless it is known that this would change nothing.
func (c *childPlanner) planDifference(child differingChild, known childHistory) error {
	p, now := c.plan, c.observed.now
	step := childStep{verb: verbUpdate, child: child.key(), in: child.in.Resource, uid: child.observed.GetUID(),
		resourceVersion: child.observed.GetResourceVersion(), object: child.verdict.Object, attempt: known.nextAttempt(child.hash, now)}
	if child.in.method != v1alpha1.ChildUpdateRecreate || child.verdict.RecordOnly {
		if c.spec.comparesWritten(child.in) {
			if !child.verdict.DesiredChanged && known.futile == (change{child.hash, differencesOf(child.tree, child.verdict.Object).hash()}) {
				c.leaveAsIs(child, known)
				return nil
			}
			step.desired = child.desired
		}
		return c.planUpdate(step, child, known)
	}
	created, err := c.spec.newChild(c.observed.of, c.observed.parent, child.desired)
	if err != nil {
		return err // it could not be created again
	}
	if differs, unsure := child.unsure(); unsure {
		if len(differs) == 0 || known.futile == (change{child.hash, differs.hash()}) {
			c.leaveAsIs(child, known)
			return nil
		}
		step.trial = newTrial(created, child.observed, differs)
	}
	if c.spec.serverSide && child.verdict.DesiredChanged && !child.verdict.Switched {
		return c.planUpdate(step, child, known)
	}
	step.verb, step.object, step.resourceVersion = verbRecreate, nil, ""
	if c.spec.serverSide {
		step.object, step.resourceVersion, step.serverSide, step.observed = created, child.observed.GetResourceVersion(), true, child.tree
	}
	p.planChange(step, known, now)
	return nil
}

// unsure reports whether a child may differ in what a new one would have, too, and returns these differences: the same is desired as was applied, or nothing is
// known of what was applied.
func (child *differingChild) unsure() (differences, bool) {
	differs := differencesOf(child.tree, child.verdict.Object)
	switch {
	case !child.verdict.DesiredChanged:
		return differs.sinceCreation(child.observed.GetGeneration(), child.in.isOfKubernetes()), true
	case child.verdict.Unrecorded && len(differs) > 0:
		return differs, true
	}
	return nil, false
}

// planUpdate updates a child in place.
func (c *childPlanner) planUpdate(step childStep, child differingChild, known childHistory) error {
	step.orRecreate = child.in.method == v1alpha1.ChildUpdateRecreate && child.verdict.MayRemove
	if step.switched = child.verdict.Switched; step.switched || step.orRecreate {
		step.desired = child.desired // what is written depends on the managedFields
	}
	if c.spec.serverSide {
		object, err := c.spec.newChild(c.observed.of, c.observed.parent, child.desired)
		if err != nil {
			return err
		}
		step.object, step.serverSide, step.observed = object, true, child.tree
	}
	if err := checkAnnotations(step.object); err != nil {
		return err
	}
	c.plan.planChange(step, known, c.observed.now)
	return nil
}

// leaveAsIs does nothing about a child although it differs: that would change nothing. After an apply that is no problem: the API server may only write a
// value in another way.
func (c *childPlanner) leaveAsIs(child differingChild, known childHistory) {
	p := c.plan
	p.history.ignored = true
	if !known.reported && !c.spec.serverSide {
		p.stuck = append(p.stuck, child.key())
	}
	p.history.children.set(child.key(), childHistory{synced: version{child.hash, child.observed.GetResourceVersion()}, reported: true, futile: known.futile,
		existed: true, rewrites: known.rewrites})
}

// planChange changes a child that differs, with a backoff if the same change was made before and did not last.
func (p *plan) planChange(step childStep, known childHistory, now time.Time) {
	if step.attempt.times > 2 && !known.reported {
		p.stuck = append(p.stuck, step.child)
	}
	known.reported = step.attempt.times > 2 || known.reported && known.rewrites.Slowed(now)
	p.history.children.set(step.child, known)
	switch wait, never := known.wait(step.verb, step.attempt, now); {
	case never:
		p.history.ignored = true
	case wait > 0:
		p.history.ignored, p.delayed = true, true
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
	p.history.children.set(step.child, known)
}
