// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// labelControllerUID is on the children of a controller that generates selectors.
const labelControllerUID = "controller-uid"

// selectorOf returns by what labels the children of a parent are found. It depends on nothing but the parent's UID and spec.
func (r *rules) selectorOf(parent object) (labels.Selector, error) {
	if r.generateSelector {
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

// claims are the children of one type: those that are the parent's, those that are to become so, and those that are no more.
// Each list is sorted by namespace and name.
type claims struct {
	children, adopt, release []object
}

// claim finds the children of a parent among the objects that it owns and those that nobody owns, as Kubernetes does for its
// own controllers. Objects that do not belong there are passed over: a cache may lag behind.
func claim(parent object, selector labels.Selector, owned, ownerless []object) (c claims) {
	within := func(o object) bool {
		return parent.GetNamespace() == "" || o.GetNamespace() == parent.GetNamespace()
	}
	for _, o := range owned {
		switch {
		case !within(o) || o.ControllerUID() != parent.GetUID():
		case selector.Matches(o.Labels()):
			c.children = append(c.children, o)
		case !parent.Deleting():
			c.release = append(c.release, o)
		}
	}
	for _, o := range ownerless {
		if within(o) && o.ControllerUID() == "" && !parent.Deleting() && !o.Deleting() && selector.Matches(o.Labels()) {
			c.adopt = append(c.adopt, o)
		}
	}
	for _, list := range [][]object{c.children, c.adopt, c.release} {
		slices.SortFunc(list, func(a, b object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
	return c
}
