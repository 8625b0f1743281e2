// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// builtInInterval is how often it is checked whether a controller of Millwright runs that reconciles the parents.
const builtInInterval = 2 * time.Second

// servedByBuiltIn is the problem of a CompositeController for whose parents the named controller of Millwright runs.
func servedByBuiltIn(parents schema.GroupResource, name string) *parent.Problem {
	return &parent.Problem{Reason: v1alpha1.ReasonServedByBuiltIn, Message: fmt.Sprintf(
		"%s are reconciled by the controller %s of Millwright, and two controllers of one object would fight: delete this CompositeController, or switch %s off, "+
			"as with --controllers=*,-%s in the Deployment that runs it", parents, name, name, name)}
}

// builtInFor returns why the parents are left to a controller of Millwright, nil if they are not. It is not known before the Leases are read.
func (c *Controller) builtInFor(d *parent.Declaration) (problem *parent.Problem, known bool) {
	parents, checked := c.checkedParents(d)
	if !checked {
		return nil, true
	}
	name, on, known := c.BuiltIn(parents.GroupResource())
	if on {
		problem = servedByBuiltIn(parents.GroupResource(), name)
	}
	return problem, known
}

// untilBuiltIn returns when to check again whether a controller of Millwright reconciles the parents, 0 if there is none for them.
func (c *Controller) untilBuiltIn(d *parent.Declaration) time.Duration {
	parents, checked := c.checkedParents(d)
	if !checked {
		return 0
	}
	if name, _, _ := c.BuiltIn(parents.GroupResource()); name == "" {
		return 0
	}
	return builtInInterval
}

// checkedParents returns the type of the parents, and whether a controller of Millwright may reconcile it. The targets of a DecoratorController may
// have any number of controllers.
func (c *Controller) checkedParents(d *parent.Declaration) (parents schema.GroupVersionResource, checked bool) {
	if c.BuiltIn == nil || d.Kind == parent.Decorator {
		return parents, false
	}
	parents, err := parent.ResourceOf(d.Parents[0].ResourceRule)
	return parents, err == nil
}
