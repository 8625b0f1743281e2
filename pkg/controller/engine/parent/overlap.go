// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// Two CompositeControllers may have the same parent. Each would delete the children that the other one creates, if both declare their type,
// and both would write the status. So the oldest one has the children of each type, and the status: by creationTimestamp, then by name,
// which is the same in each process and after each restart.

// rival is an older CompositeController with the same type of parents.
type rival struct {
	name     string
	parents  labels.Selector
	children sets.Set[schema.GroupResource]
}

// Overlap is what a CompositeController has to leave to older ones. The rivals are sorted, the oldest first.
type Overlap struct {
	rivals   []rival
	of       schema.GroupResource
	parents  labels.Selector
	children sets.Set[schema.GroupResource]
}

// OverlapOf finds the rivals of a CompositeController among all. One whose spec is invalid, or that is being deleted, is no rival; nor is one
// without a sync hook, which creates no children. A DecoratorController has none: several may have the same targets.
func OverlapOf(d *Declaration, all []*Declaration) Overlap {
	own, ok := rivalFrom(d)
	if !ok {
		return Overlap{}
	}
	of := d.ParentResources()[0].GroupResource()
	o := Overlap{of: of, parents: own.parents, children: own.children}
	older := slices.Clone(all)
	slices.SortFunc(older, byAge)
	for _, other := range older {
		if byAge(other, d) >= 0 {
			break
		}
		if r, ok := rivalFrom(other); ok && other.HasParents(of) {
			o.rivals = append(o.rivals, r)
		}
	}
	return o
}

func rivalFrom(d *Declaration) (rival, bool) {
	if d.Kind != Composite || d.DeletionTimestamp != nil || d.CheckSpec() != nil || !enabled(d.Hooks.Sync) {
		return rival{}, false
	}
	selector, _ := d.Parents[0].labelSelector() // checked above
	types := sets.New[schema.GroupResource]()
	for _, child := range d.ChildResources() {
		types.Insert(child.GroupResource())
	}
	if d.rolls() {
		types.Insert(controllerRevisions.GroupResource()) // the records of a parent are those of one CompositeController
	}
	return rival{d.Name, selector, types}, true
}

// byAge orders CompositeControllers, the oldest first.
func byAge(a, b *Declaration) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// equal reports whether two overlaps have the same consequences.
func (o *Overlap) equal(other *Overlap) bool {
	return o.of == other.of && slices.EqualFunc(o.rivals, other.rivals, func(a, b rival) bool {
		return a.name == b.name && a.parents.String() == b.parents.String() && a.children.Equal(b.children)
	})
}

// on returns the consequences for a parent with these labels: children is why nothing is done for it, nil if it is synced, and status the older
// CompositeController that writes its status, "" if none does.
func (o *Overlap) on(parent labels.Labels) (children *Problem, status string) {
	return o.among(func(r rival) bool { return r.parents.Matches(parent) })
}

// agrees reports whether both overlaps have the same consequences for a parent with these labels.
func (o *Overlap) agrees(other *Overlap, parent labels.Labels) bool {
	children, status := o.on(parent)
	otherChildren, otherStatus := other.on(parent)
	return status == otherStatus && (children == nil) == (otherChildren == nil) && (children == nil || *children == *otherChildren)
}

// always returns why no parent is synced, whatever its labels; nil if that depends on them.
func (o *Overlap) always() *Problem {
	problem, _ := o.among(func(r rival) bool { return includes(r.parents, o.parents) })
	return problem
}

// among returns the consequences of those rivals that have the parent. A rival that itself leaves its children to an older one is inactive.
func (o *Overlap) among(counts func(rival) bool) (children *Problem, status string) {
	var active []rival
	for _, r := range o.rivals {
		if _, blocked := sharing(active, r.children); counts(r) && blocked == "" {
			active = append(active, r)
		}
	}
	switch shared, by := sharing(active, o.children); {
	case by == "":
	case shared == controllerRevisions.GroupResource().String():
		return &Problem{v1alpha1.ReasonParentsOverlap, fmt.Sprintf(
			"CompositeController %s, which is older, has the same parents (%s) and a Rolling method, as this one has: both would write the ControllerRevisions of the parents, "+
				"so this one does nothing for such parents; give the two different parentResource.labelSelector, or give one of them no Rolling method, or delete one", by, o.of)}, ""
	default:
		return &Problem{v1alpha1.ReasonParentsOverlap, fmt.Sprintf(
			"CompositeController %s, which is older, has the same parents (%s) and children of the same type (%s): each would delete what the other creates, "+
				"so this one does nothing for such parents; give the two different parentResource.labelSelector or childResources, or delete one", by, o.of, shared)}, ""
	}
	if len(active) > 0 {
		status = active[0].name
	}
	return nil, status
}

// sharing returns the first rival with children of one of the types, and that type.
func sharing(rivals []rival, children sets.Set[schema.GroupResource]) (shared, by string) {
	for _, r := range rivals {
		if both := r.children.Intersection(children).UnsortedList(); len(both) > 0 {
			return slices.MinFunc(both, byNameRecordsLast).String(), r.name
		}
	}
	return "", ""
}

// byNameRecordsLast orders types, with ControllerRevisions last: users have not declared them.
func byNameRecordsLast(a, b schema.GroupResource) int {
	records := controllerRevisions.GroupResource()
	switch {
	case a == b:
		return 0
	case a == records:
		return 1
	case b == records:
		return -1
	default:
		return cmp.Compare(a.String(), b.String())
	}
}

// includes reports whether the wide selector certainly matches all that the narrow one does: it has no requirement that the narrow one lacks.
func includes(wide, narrow labels.Selector) bool {
	required, _ := wide.Requirements()
	given, _ := narrow.Requirements()
	return !slices.ContainsFunc(required, func(r labels.Requirement) bool { return !slices.ContainsFunc(given, r.Equal) })
}

// leaveStatus removes the status from the plan, because an older CompositeController writes it. It returns a problem if that one has written
// another status for this generation of the parent.
func (p *plan) leaveStatus(parent object, to string) *Problem {
	if p.status == nil {
		return nil
	}
	p.status = nil
	var written struct {
		Status map[string]any `json:"status"`
	}
	if err := utiljson.Unmarshal([]byte(parent.JSON()), &written); err != nil || written.Status["observedGeneration"] != parent.GetGeneration() {
		return nil // it has yet to do so
	}
	return &Problem{v1alpha1.ReasonParentsOverlap, fmt.Sprintf(
		"the hook wants another status for the parent %s than that of CompositeController %s, which is older and has the same parent: the status is left to that one; "+
			"give the two different parentResource.labelSelector, or let both hooks answer with the same status", nameIn(parent), to)}
}
