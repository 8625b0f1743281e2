// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

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

// Two CompositeControllers may count the same parent. Both would take the children of a type that both declare for theirs, and delete
// what the other one creates, and both would write the status. So of a parent that several count the oldest has the children of each
// type, and the status: by creationTimestamp, then by name, which is the same in each process and after each restart.

// rival is an older CompositeController with the same type of parents.
type rival struct {
	name     string
	parents  labels.Selector
	children sets.Set[schema.GroupResource]
}

// overlap are the rivals of a CompositeController, the oldest first.
type overlap struct {
	rivals   []rival
	of       schema.GroupResource
	parents  labels.Selector
	children sets.Set[schema.GroupResource]
}

// overlapOf finds the rivals of a CompositeController among all that are served. One whose spec can never work, or that is being
// deleted, is none; nor is one without a sync hook, which brings no children about.
func overlapOf(cc *v1alpha1.CompositeController, all []*v1alpha1.CompositeController) overlap {
	own, ok := rivalFrom(cc)
	if !ok {
		return overlap{}
	}
	of, _ := gvr(cc.Spec.ParentResource.ResourceRule)
	o := overlap{of: of.GroupResource(), parents: own.parents, children: own.children}
	older := slices.Clone(all)
	slices.SortFunc(older, byAge)
	for _, other := range older {
		if byAge(other, cc) >= 0 {
			break
		}
		if parent, err := gvr(other.Spec.ParentResource.ResourceRule); err != nil || parent.GroupResource() != o.of {
			continue
		}
		if r, ok := rivalFrom(other); ok {
			o.rivals = append(o.rivals, r)
		}
	}
	return o
}

func rivalFrom(cc *v1alpha1.CompositeController) (rival, bool) {
	if cc.DeletionTimestamp != nil || checkSpec(&cc.Spec) != nil || !enabled(cc.Spec.Hooks.Sync) {
		return rival{}, false
	}
	selector, _ := parentSelector(&cc.Spec) // checked above
	_, children := wanted(&cc.Spec)
	types := sets.New[schema.GroupResource]()
	for _, child := range children {
		types.Insert(child.GroupResource())
	}
	return rival{cc.Name, selector, types}, true
}

// byAge orders CompositeControllers, the oldest first.
func byAge(a, b *v1alpha1.CompositeController) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// same reports whether two overlaps lead to the same.
func (o *overlap) same(as *overlap) bool {
	return o.of == as.of && slices.EqualFunc(o.rivals, as.rivals, func(a, b rival) bool {
		return a.name == b.name && a.parents.String() == b.parents.String() && a.children.Equal(b.children)
	})
}

// on a parent with these labels, children is why none of its children is touched, and status which older CompositeController writes
// its status, "" if none does.
func (o *overlap) on(parent labels.Labels) (children *problem, status string) {
	return o.among(func(r rival) bool { return r.parents.Matches(parent) })
}

// agrees reports whether the other overlap leaves the same of a parent with these labels to the same CompositeControllers.
func (o *overlap) agrees(other *overlap, parent labels.Labels) bool {
	children, status := o.on(parent)
	otherChildren, otherStatus := other.on(parent)
	return status == otherStatus && (children == nil) == (otherChildren == nil) && (children == nil || *children == *otherChildren)
}

// always is why no parent can be served, whatever its labels: nil where that depends on them.
func (o *overlap) always() *problem {
	wrong, _ := o.among(func(r rival) bool { return includes(r.parents, o.parents) })
	return wrong
}

// among the rivals that count, those have children that no older one has taken them from.
func (o *overlap) among(counts func(rival) bool) (children *problem, status string) {
	var active []rival
	for _, r := range o.rivals {
		if _, blocked := sharing(active, r.children); counts(r) && blocked == "" {
			active = append(active, r)
		}
	}
	if shared, by := sharing(active, o.children); by != "" {
		return &problem{v1alpha1.ReasonParentsOverlap, fmt.Sprintf(
			"CompositeController %s, which is older, has the same parents (%s) and children of the same type (%s): each would delete what the other creates, "+
				"so this one does nothing for such parents; give the two different parentResource.labelSelector or childResources, or delete one", by, o.of, shared)}, ""
	}
	if len(active) > 0 {
		status = active[0].name
	}
	return nil, status
}

// sharing finds the first that has children of one of the types.
func sharing(rivals []rival, children sets.Set[schema.GroupResource]) (shared, by string) {
	for _, r := range rivals {
		if both := r.children.Intersection(children).UnsortedList(); len(both) > 0 {
			return slices.MinFunc(both, func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) }).String(), r.name
		}
	}
	return "", ""
}

// includes reports whether a selector is known to select all that the other one does: it has no requirement that the other one lacks.
func includes(wide, narrow labels.Selector) bool {
	required, _ := wide.Requirements()
	given, _ := narrow.Requirements()
	return !slices.ContainsFunc(required, func(r labels.Requirement) bool { return !slices.ContainsFunc(given, r.Equal) })
}

// leaveStatus takes the status out of the plan, because an older CompositeController writes it. It returns the problem where that one
// has written another for this generation of the parent.
func (p *plan) leaveStatus(parent object, to string) *problem {
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
	return &problem{v1alpha1.ReasonParentsOverlap, fmt.Sprintf(
		"the hook wants another status for the parent %s than that of CompositeController %s, which is older and has the same parent: the status is left to that one; "+
			"give the two different parentResource.labelSelector, or let both hooks answer with the same status", nameIn(parent), to)}
}

func nameIn(o object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}
