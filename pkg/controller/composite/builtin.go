// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite/parent"
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
func (c *Controller) builtInFor(cc *v1alpha1.CompositeController) (problem *parent.Problem, known bool) {
	parents, err := parent.ResourceOf(cc.Spec.ParentResource.ResourceRule)
	if c.BuiltIn == nil || err != nil {
		return nil, true
	}
	name, on, known := c.BuiltIn(parents.GroupResource())
	if on {
		problem = servedByBuiltIn(parents.GroupResource(), name)
	}
	return problem, known
}

// untilBuiltIn returns when to check again whether a controller of Millwright reconciles the parents, 0 if there is none for them.
func (c *Controller) untilBuiltIn(cc *v1alpha1.CompositeController) time.Duration {
	parents, err := parent.ResourceOf(cc.Spec.ParentResource.ResourceRule)
	if c.BuiltIn == nil || err != nil {
		return 0
	}
	if name, _, _ := c.BuiltIn(parents.GroupResource()); name == "" {
		return 0
	}
	return builtInInterval
}
