// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	operator "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/controller"
)

// labelControllerUID is the label of children if generateSelector is true.
const labelControllerUID = "controller-uid"

// annotationDecorator is the annotation of attachments with the name of their DecoratorController.
const annotationDecorator = "metacontroller.k8s.io/decorator-controller"

// selectorOf returns the label selector of the children of a parent. It depends only on the parent's UID and spec. Attachments have none: what is
// selected is never asked of them.
func (spec *Spec) selectorOf(parent object) (labels.Selector, error) {
	if spec.kind == Decorator {
		return labels.Everything(), nil
	}
	if spec.generateSelector {
		return labels.SelectorFromValidatedSet(labels.Set{labelControllerUID: string(parent.GetUID())}), nil
	}
	var tree struct {
		Spec struct {
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if err := parent.Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading spec.selector of the parent: %w", err)
	}
	selector := tree.Spec.Selector
	if selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
		return nil, errors.New("the parent has no spec.selector with matchLabels or matchExpressions: give it one, or set generateSelector in the CompositeController")
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("parsing spec.selector of the parent: %w", err)
	}
	return parsed, nil
}

// adopts reports whether a parent with the selector adopts orphans: whether it demands a value of a label, by matchLabels or an In expression. Another one may
// match everything in the namespace that has no controller owner, and what the hook does not desire of that would be deleted.
func (spec *Spec) adopts(selector labels.Selector) bool {
	requirements, _ := selector.Requirements()
	return spec.adoptAny || slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return r.Operator() == operator.Equals || r.Operator() == operator.In
	})
}

// claims are objects of one type: those that the parent owns and keeps, those that it adopts, those that it does not adopt because its selector demands no
// value of a label or because they are parents themselves, and those that it releases. Each list is sorted by namespace and name.
type claims struct {
	children, adopt, refused, peers, release []object
}

// claim finds the children of a parent among the objects that it owns and the orphans, by the rules of the controllers of Kubernetes. Objects that
// are in the wrong list are skipped: a cache may be stale. So are the attachments of DecoratorControllers that have the parent as a target, and the parent
// itself with its owners, which may be of the type of its children. isParent reports whether an orphan is a parent of the Declaration, too: two parents
// that adopt each other would delete each other.
func (spec *Spec) claim(parent object, selector labels.Selector, owned, orphans []object, isParent func(object) bool) (c claims) {
	for _, o := range owned {
		switch {
		case o.ControllerUID() != parent.GetUID() || ownershipOf(parent, selector, o) == controller.Foreign || isSelfOrController(o, parent):
		case !spec.mayHaveCreated(o, parent.GetUID()):
		case selector.Matches(o.Labels()):
			c.children = append(c.children, o)
		case !parent.Deleting():
			c.release = append(c.release, o)
		}
	}
	adopts := spec.adopts(selector)
	for _, o := range orphans {
		switch {
		case ownershipOf(parent, selector, o) != controller.Orphaned || parent.Deleting() || isAbove(o, parent) || !spec.mayHaveCreated(o, parent.GetUID()):
		case isParent(o):
			c.peers = append(c.peers, o)
		case adopts:
			c.adopt = append(c.adopt, o)
		default:
			c.refused = append(c.refused, o)
		}
	}
	for _, list := range [][]object{c.children, c.adopt, c.refused, c.peers, c.release} {
		slices.SortFunc(list, byName)
	}
	return c
}

// isSelfOrController reports whether an object is a parent itself, or its controller.
func isSelfOrController(o, parent object) bool {
	return o.GetUID() == parent.GetUID() || o.GetUID() == parent.ControllerUID()
}

// isAbove reports whether an object is a parent itself, or an owner of it: as a child of the parent it would own itself.
func isAbove(o, parent object) bool {
	if isSelfOrController(o, parent) {
		return true
	}
	if !strings.Contains(parent.JSON(), string(o.GetUID())) {
		return false // most parents need not be read to know it
	}
	metadata, err := metadataOf(parent)
	return err == nil && slices.ContainsFunc(metadata.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == o.GetUID() })
}

// claimAttachments finds the attachments of a target among the objects that it owns: those that this DecoratorController has created. Nothing is
// adopted or released. The objects are sorted by namespace and name.
func (spec *Spec) claimAttachments(owned []object) (c claims) {
	for _, o := range owned {
		if spec.mayHaveCreated(o, o.ControllerUID()) {
			c.children = append(c.children, o)
		}
	}
	slices.SortFunc(c.children, byName)
	return c
}

// mayHaveCreated reports whether the Declaration may have created an object that a parent of it owns, or has owned. A parent may be the target of
// DecoratorControllers, too, and each has its own attachments. The label of a generated selector has the UID of the parent: no attachment has that.
func (spec *Spec) mayHaveCreated(o object, parent types.UID) bool {
	decorator := annotationOf(o, annotationDecorator)
	if spec.kind == Decorator {
		return decorator == spec.name
	}
	return decorator == "" || spec.generateSelector && o.Labels().Get(labelControllerUID) == string(parent)
}

func byName(a, b object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// ownershipOf returns the ownership of an object that exists. An object in another namespace than its parent's is foreign.
func ownershipOf(parent object, selector labels.Selector, o object) controller.Ownership {
	switch owner := o.ControllerUID(); {
	case parent.GetNamespace() != "" && o.GetNamespace() != parent.GetNamespace():
		return controller.Foreign
	case owner == parent.GetUID() && !o.Deleting():
		return controller.Owned
	case owner == parent.GetUID():
		return controller.Terminating
	case owner != "" || !selector.Matches(o.Labels()):
		return controller.Foreign
	case o.Deleting():
		return controller.Terminating
	default:
		return controller.Orphaned
	}
}
