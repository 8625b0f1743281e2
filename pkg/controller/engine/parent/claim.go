// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// claims are objects of one type: those that the parent owns and keeps, those that it adopts, and those that it releases. Each list is sorted by
// namespace and name.
type claims struct {
	children, adopt, release []object
}

// claim finds the children of a parent among the objects that it owns and the orphans, by the rules of the controllers of Kubernetes. Objects that
// are in the wrong list are skipped: a cache may be stale. So are the attachments of DecoratorControllers that have the parent as a target.
func claim(parent object, selector labels.Selector, owned, orphans []object) (c claims) {
	for _, o := range owned {
		switch {
		case o.ControllerUID() != parent.GetUID() || ownershipOf(parent, selector, o) == controller.Foreign:
		case annotationOf(o, annotationDecorator) != "":
		case selector.Matches(o.Labels()):
			c.children = append(c.children, o)
		case !parent.Deleting():
			c.release = append(c.release, o)
		}
	}
	for _, o := range orphans {
		if ownershipOf(parent, selector, o) == controller.Orphaned && !parent.Deleting() {
			c.adopt = append(c.adopt, o)
		}
	}
	for _, list := range [][]object{c.children, c.adopt, c.release} {
		slices.SortFunc(list, byName)
	}
	return c
}

// claimAttachments finds the attachments of a target among the objects that it owns: those that this DecoratorController has created. Nothing is
// adopted or released. The objects are sorted by namespace and name.
func (spec *Spec) claimAttachments(owned []object) (c claims) {
	for _, o := range owned {
		if spec.mayHaveCreated(o) {
			c.children = append(c.children, o)
		}
	}
	slices.SortFunc(c.children, byName)
	return c
}

// mayHaveCreated reports whether the Declaration may have created an object that a parent of it owns. A parent may be the target of
// DecoratorControllers, too, and each has its own attachments.
func (spec *Spec) mayHaveCreated(o object) bool {
	decorator := annotationOf(o, annotationDecorator)
	return spec.kind == Composite && decorator == "" || spec.kind == Decorator && decorator == spec.name
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
