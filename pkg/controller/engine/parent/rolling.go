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
	// patch has the fields of the parent that make the revision.
	patch map[string]any
	// record is nil if there is none yet. stored is what is in it, and forged whether its patch is another one.
	record object
	stored storedRevision
	forged bool
}

// storedRevision is a ControllerRevision as it is stored.
type storedRevision struct {
	Metadata    map[string]any                        `json:"metadata"`
	ParentPatch json.RawMessage                       `json:"parentPatch"`
	Children    []v1alpha1.ControllerRevisionChildren `json:"children"`
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
		var stored storedRevision
		if err := record.Decode(&stored); err != nil {
			strays = append(strays, record)
			continue
		}
		recorded, genuine := rollout.ReadPatch(record.GetName(), stored.ParentPatch, of.GroupResource(), parent.GetUID())
		switch {
		case record.GetName() == name:
			revisions[0].record, revisions[0].stored, revisions[0].forged = record, stored, !genuine
		case genuine:
			revisions = append(revisions, revision{name: record.GetName(), patch: recorded, record: record, stored: stored})
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
	// latest are the children that the latest revision desires.
	latest *desiredChildren
	claims *rollout.Claims
}

// planRolling plans all children. Those of the latest revision come first: whether another one is moved depends on what is left to do for them.
func (c *childPlanner) planRolling() {
	r := &rolling{childPlanner: c, latest: c.observed.answer.desired}
	r.claims = rollout.NewClaims(r.revisions(), r.latest.order)
	r.claims.Settle(r)
	var others []int
	for place := range r.latest.list {
		if child := &r.latest.list[place]; r.hasLatest(child) {
			c.planOne(child, place)
			c.known[place] = c.plan.history.children[child.key()]
		} else {
			others = append(others, place)
		}
	}
	state := r.claims.Advance(r)
	state.Latest = c.observed.rolling[0].name
	for _, place := range others {
		if revision, claimed := r.claims.Of(r.latest.list[place].turn); claimed { // one without a revision differs, and has to wait for its turn
			c.planOne(r.desired(revision, place), place)
		}
	}
	c.plan.rollout, c.plan.claims = &state, r.claims
}

// hasLatest reports whether a child is as the latest revision desires it, or has to become so. A child that does not roll always has.
func (r *rolling) hasLatest(child *desiredChild) bool {
	if child.turn == notRolling {
		return true
	}
	revision, claimed := r.claims.Of(child.turn)
	return claimed && revision == 0
}

// revisions returns the revisions of the parent. A child that the selector does not select any more cannot keep its revision.
func (r *rolling) revisions() []rollout.Revision {
	revisions := make([]rollout.Revision, len(r.observed.rolling))
	for i, of := range r.observed.rolling {
		revisions[i] = rollout.Revision{Claims: of.stored.Children, Desires: func(turn int) bool {
			child := r.desired(i, r.latest.turns[turn])
			return child != nil && r.spec.selects(r.observed, child.Child)
		}}
	}
	return revisions
}

// desired returns the child that has a place in the latest revision, as a revision desires it; nil if that desires no such child.
func (r *rolling) desired(revision, place int) *desiredChild {
	child := &r.latest.list[place]
	if revision == 0 {
		return child
	}
	return r.observed.rolling[revision].answer.desired.find(child.key(), place)
}

// Presence implements rollout.Children.
func (r *rolling) Presence(turn int) rollout.Presence {
	switch current := r.current[r.latest.turns[turn]]; {
	case current == nil:
		return rollout.Missing
	case current.Deleting():
		return rollout.Terminating
	default:
		return rollout.Present
	}
}

// Matches implements rollout.Children. A child is merged once in each version, not in each sync.
func (r *rolling) Matches(revision, turn int) bool {
	place := r.latest.turns[turn]
	wanted, current, known := r.desired(revision, place), r.current[place], r.known[place]
	if wanted.err != nil {
		return false // reported when it is planned
	}
	at := version{wanted.hash, current.GetResourceVersion()}
	switch {
	case known != nil && known.synced == at:
		return true
	case known != nil && known.differs == at:
		return false
	}
	verdict, err := r.verdictOn(current, wanted)
	if err != nil {
		return false
	}
	switch {
	case !verdict.Differs:
		r.remember(place, func(known *childHistory) { *known = known.markSynced(at, r.observed.now) })
	case revision == 0:
		r.remember(place, func(known *childHistory) { known.differs = at })
	}
	return !verdict.Differs
}

// IsOutdated implements rollout.Children. While no child rolls, all are updated and no record is: a record that was there before this process wrote any may
// claim children that have left its revision long ago. What they were last updated to shows that, also where another client has changed them since.
func (r *rolling) IsOutdated(revision, turn int) bool {
	if r.observed.history.recorded {
		return false
	}
	place := r.latest.turns[turn]
	wanted := r.desired(revision, place)
	if wanted.err != nil {
		return false // reported when it is planned
	}
	verdict, err := r.verdictOn(r.current[place], wanted)
	return err == nil && verdict.DesiredChanged && !verdict.RecordOnly
}

// verdictOn compares a child that is present with what a revision desires.
func (r *rolling) verdictOn(current object, wanted *desiredChild) (merge.Verdict, error) {
	desired, err := r.spec.desiredTree(r.observed.parent, wanted.Child)
	if err != nil {
		return merge.Verdict{}, err
	}
	tree, err := treeOf(current)
	if err != nil {
		return merge.Verdict{}, err
	}
	return r.update(tree, desired)
}

// Unready implements rollout.Children. A child is read once in each version.
func (r *rolling) Unready(turn int) string {
	place := r.latest.turns[turn]
	current, known := r.current[place], r.known[place]
	if known != nil && known.ready == current.GetResourceVersion() {
		return ""
	}
	reason := r.latest.list[place].in.unready(current)
	if reason == "" {
		r.remember(place, func(known *childHistory) { known.ready = current.GetResourceVersion() })
	}
	return reason
}

// remember changes what is known of a child.
func (r *rolling) remember(place int, change func(*childHistory)) {
	key := r.latest.list[place].key()
	known := r.plan.history.children.of(key)
	change(&known)
	r.plan.history.children.set(key, known)
	r.known[place] = r.plan.history.children[key]
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
func (t *childType) unready(child object) string {
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
