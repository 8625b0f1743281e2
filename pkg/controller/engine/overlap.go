// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/controller/engine/parent"
)

// affectedBy returns the keys of the declarations that a change of one concerns: that one, and the CompositeControllers with the same type of
// parents.
func (c *Controller) affectedBy(d *parent.Declaration) []parent.Key {
	keys := []parent.Key{c.declarationKey(d.Name)}
	if d.Kind == parent.Decorator {
		return keys
	}
	of, err := parent.ResourceOf(d.Parents[0].ResourceRule)
	if err != nil {
		return keys
	}
	for _, other := range c.selected() {
		if other.Name != d.Name && other.HasParents(of.GroupResource()) {
			keys = append(keys, c.declarationKey(other.Name))
		}
	}
	return keys
}

// selected returns the declarations that this process is to host.
func (c *Controller) selected() []*parent.Declaration {
	return slices.DeleteFunc(c.Declarations.List(), func(d *parent.Declaration) bool { return !c.TargetSelector.Matches(labels.Set(d.Labels)) })
}
