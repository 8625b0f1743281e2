// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"fmt"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/rollout"
)

// revision is a revision of a parent whose children roll.
type revision struct {
	// name of its record.
	name string
	// record is nil if there is none yet.
	record object
	// patch has the fields of the parent that make the revision, and claims the children that the record names.
	patch  map[string]any
	claims []rollout.Child
}

// revisionAnswer is a revision with what the hook answered for it.
type revisionAnswer struct {
	revision
	answer *answer
}

// revisionsOf returns the revisions of a parent, the latest first, by the records that it owns. The strays are the other records.
func (spec *Spec) revisionsOf(of *parentType, parent object, records []object) (revisions []revision, strays []object, err error) {
	tree, err := treeOf(parent)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the parent: %w", err)
	}
	patch, err := spec.fields.Patch(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fields of revisionHistory.fieldPaths: %w", err)
	}
	name, err := rollout.NameOf(of.GroupResource(), parent.GetUID(), patch)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the fields of revisionHistory.fieldPaths: %w", err)
	}
	revisions = []revision{{name: name, patch: patch}}
	for _, record := range records {
		var stored v1alpha1.ControllerRevision
		if err := record.Decode(&stored); err != nil {
			strays = append(strays, record)
			continue
		}
		recorded, genuine := rollout.ReadPatch(&stored, of.GroupResource(), parent.GetUID())
		claims := rollout.ReadClaims(stored.Children)
		switch {
		case record.GetName() == name:
			revisions[0].record, revisions[0].claims = record, claims
		case genuine:
			revisions = append(revisions, revision{record.GetName(), record, recorded, claims})
		default:
			strays = append(strays, record)
		}
	}
	return revisions, strays, nil
}

// materialised is a parent with the fields of an older revision. Hooks see only its JSON.
type materialised struct {
	object
	text string
}

func (m materialised) JSON() string { return m.text }

// materialise returns the parent with the fields of a revision.
func (spec *Spec) materialise(parent object, of revision) (object, error) {
	tree, err := treeOf(parent)
	if err != nil {
		return nil, fmt.Errorf("reading the parent: %w", err)
	}
	if tree, err = spec.fields.Apply(tree, of.patch); err != nil {
		return nil, fmt.Errorf("applying the ControllerRevision %s: %w", of.name, err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encoding the parent with the ControllerRevision %s: %w", of.name, err)
	}
	return materialised{parent, string(text)}, nil
}

// answers returns the answers for all revisions.
func (o *observed) answers() []*answer {
	if o.rolling == nil {
		return []*answer{o.answer}
	}
	answers := make([]*answer, len(o.rolling))
	for i, revision := range o.rolling {
		answers[i] = revision.answer
	}
	return answers
}

// isFinalized reports whether the hook has finalized the parent: by its answers for all revisions.
func (o *observed) isFinalized() bool {
	for _, answer := range o.answers() {
		if !answer.Finalized {
			return false
		}
	}
	return true
}

// resyncAfter returns the earliest delay after which the hook wants to be called again; 0 if it does not.
func (o *observed) resyncAfter() (after time.Duration) {
	for _, answer := range o.answers() {
		after = controller.EarliestDelay(after, resyncAfter(answer))
	}
	return after
}

// rolling plans the children of types that roll: each as its revision desires it. It is what rollout observes of them.
type rolling struct {
	*childPlanner
	// desired are the children that each revision desires.
	desired []map[rollout.Child]desiredChild
	claims  *rollout.Claims
}

func (c desiredChild) rolled() rollout.Child {
	return rollout.Child{Group: c.key.group, Kind: c.key.kind, Name: c.key.name}
}

// planRolling plans all children. Those of the latest revision come first: whether another one is moved depends on what is left to do for them.
func (c *childPlanner) planRolling(latest []desiredChild) {
	r := &rolling{childPlanner: c}
	r.claims = rollout.NewClaims(r.revisions(), r.order())
	r.claims.Settle(r)
	var others []desiredChild
	for _, child := range latest {
		if revision, claimed := r.claims.Of(child.rolled()); child.in.rolls && (!claimed || revision > 0) {
			others = append(others, child)
		} else {
			c.planOne(child)
		}
	}
	state := r.claims.Advance(r)
	state.Latest = c.observed.rolling[0].name
	for _, child := range others {
		switch revision, claimed := r.claims.Of(child.rolled()); {
		case claimed:
			c.planOne(r.desired[revision][child.rolled()])
		default:
			c.plan.history.children[child.key] = c.known[child.key] // it differs, and has to wait for its turn
		}
	}
	c.plan.rollout, c.plan.claims = &state, r.claims
}

// revisions returns the revisions with the children that each desires. A child that the selector does not select any more cannot keep its revision.
func (r *rolling) revisions() (revisions []rollout.Revision) {
	for _, of := range r.observed.rolling {
		desired := map[rollout.Child]desiredChild{}
		for _, child := range r.spec.desiredChildren(of.answer.Children) {
			if child.in.rolls && r.spec.selects(r.observed, child.Child) {
				desired[child.rolled()] = child
			}
		}
		r.desired = append(r.desired, desired)
		revisions = append(revisions, rollout.Revision{Name: of.name, Claims: of.claims, Desires: func(child rollout.Child) bool {
			_, found := desired[child]
			return found
		}})
	}
	return revisions
}

// order returns the children that roll in the order of the hook's answer for the latest revision.
func (r *rolling) order() (order []rollout.Child) {
	answer := r.observed.answer
	for i := range answer.Children {
		child := &answer.Children[i]
		for _, in := range r.spec.children {
			if in.rolls && child.Kind == in.Kind && child.APIVersion == in.apiVersion() {
				order = append(order, rollout.Child{Group: in.Group, Kind: in.Kind, Name: child.Name})
			}
		}
	}
	return order
}

// history returns what is known of a child.
func (r *rolling) history(key childKey) childHistory {
	if planned, found := r.plan.history.children[key]; found {
		return planned
	}
	return r.known[key]
}

// remember keeps what is known of a child, for this plan and later ones.
func (r *rolling) remember(key childKey, known childHistory) {
	if _, planned := r.plan.history.children[key]; planned {
		r.plan.history.children[key] = known
	}
	r.known[key] = known
}

// Presence implements rollout.Children.
func (r *rolling) Presence(child rollout.Child) rollout.Presence {
	switch current, found := r.observed.children[r.keyOf(child)]; {
	case !found:
		return rollout.Missing
	case current.Deleting():
		return rollout.Terminating
	default:
		return rollout.Present
	}
}

func (r *rolling) keyOf(child rollout.Child) childKey {
	return childKey{child.Group, child.Kind, r.observed.parent.GetNamespace(), child.Name}
}

// Matches implements rollout.Children. A child is merged once in each version, not in each sync.
func (r *rolling) Matches(revision int, child rollout.Child) bool {
	wanted := r.desired[revision][child]
	current := r.observed.children[wanted.key]
	hash, err := merge.Hash(wanted.JSON)
	if err != nil {
		return false // reported when it is planned
	}
	known, at := r.history(wanted.key), version{hash, current.GetResourceVersion()}
	switch at {
	case known.synced:
		return true
	case known.differs:
		return false
	}
	desired, err := r.spec.desiredTree(r.observed.parent, wanted.Child)
	if err != nil {
		return false
	}
	tree, err := treeOf(current)
	if err != nil {
		return false
	}
	verdict, err := r.update(tree, desired)
	if err != nil {
		return false
	}
	switch {
	case !verdict.Differs:
		known = known.markSynced(at, r.observed.now)
	case revision == 0:
		known.differs = at
	}
	r.remember(wanted.key, known)
	return !verdict.Differs
}

// Unready implements rollout.Children. A child is read once in each version.
func (r *rolling) Unready(child rollout.Child) string {
	wanted := r.desired[0][child]
	current := r.observed.children[wanted.key]
	known := r.history(wanted.key)
	if known.ready == current.GetResourceVersion() {
		return ""
	}
	reason := wanted.in.unready(current)
	if reason == "" {
		known.ready = current.GetResourceVersion()
		r.remember(wanted.key, known)
	}
	return reason
}

// childStatus is what rolling updates read of the status of a child.
type childStatus struct {
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Conditions         []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	} `json:"status"`
}

// unready returns why a child is not ready by the checks of its type, "" if it is.
func (t childType) unready(child object) string {
	updates := t.method == v1alpha1.ChildUpdateInPlace
	if len(t.checks) == 0 && !updates {
		return ""
	}
	var o childStatus
	if err := child.Decode(&o); err != nil && len(t.checks) > 0 {
		return "is not ready: its status has no conditions that can be read"
	}
	if seen := o.Status.ObservedGeneration; updates && seen > 0 && seen < child.GetGeneration() {
		return "is not ready: its controller has not observed the update yet"
	}
	for _, check := range t.checks {
		if reason := o.fails(check); reason != "" {
			return "is not ready: " + reason
		}
	}
	return ""
}

// fails returns why a status does not have a condition, "" if it has.
func (s *childStatus) fails(check v1alpha1.StatusConditionCheck) string {
	for _, condition := range s.Status.Conditions {
		switch {
		case condition.Type != check.Type:
			continue
		case check.Status != nil && condition.Status != *check.Status:
			return fmt.Sprintf("the status of its condition %s is %q, and must be %q", check.Type, condition.Status, *check.Status)
		case check.Reason != nil && condition.Reason != *check.Reason:
			return fmt.Sprintf("the reason of its condition %s is %q, and must be %q", check.Type, condition.Reason, *check.Reason)
		}
		return ""
	}
	return fmt.Sprintf("it has no condition %s", check.Type)
}
