// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite/parent"
)

// affectedBy returns the keys of the CompositeControllers that a change of one concerns: that one, and those with the same type of parents.
func (c *Controller) affectedBy(cc *v1alpha1.CompositeController) []parent.Key {
	keys := []parent.Key{controllerKey(cc.Name)}
	of, err := parent.ResourceOf(cc.Spec.ParentResource.ResourceRule)
	if err != nil {
		return keys
	}
	for _, other := range c.selected() {
		parents, err := parent.ResourceOf(other.Spec.ParentResource.ResourceRule)
		if err == nil && other.Name != cc.Name && parents.GroupResource() == of.GroupResource() {
			keys = append(keys, controllerKey(other.Name))
		}
	}
	return keys
}

// selected returns the CompositeControllers that this process is to host.
func (c *Controller) selected() []*v1alpha1.CompositeController {
	all, _ := c.lister.List(labels.Everything()) // a cache returns no error
	return slices.DeleteFunc(all, func(cc *v1alpha1.CompositeController) bool { return !c.TargetSelector.Matches(labels.Set(cc.Labels)) })
}
