// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// builtInInterval is how often it is looked whether a controller of Millwright runs that serves the parents.
const builtInInterval = 2 * time.Second

// servedByBuiltIn is why a CompositeController is not served for whose parents there is a controller of that name.
func servedByBuiltIn(parent schema.GroupResource, name string) *problem {
	return &problem{v1alpha1.ReasonServedByBuiltIn, fmt.Sprintf(
		"%s are served by the controller %s of Millwright, and two controllers of one object would fight: delete this CompositeController, or switch %s off, "+
			"as with --controllers=*,-%s in the Deployment that runs it", parent, name, name, name)}
}

// builtInFor is why the parents are left to a controller of Millwright, nil if they are not. It is not known before the Leases are read.
func (c *Controller) builtInFor(cc *v1alpha1.CompositeController) (wrong *problem, known bool) {
	parent, err := gvr(cc.Spec.ParentResource.ResourceRule)
	if c.BuiltIn == nil || err != nil {
		return nil, true
	}
	name, on, known := c.BuiltIn(parent.GroupResource())
	if on {
		wrong = servedByBuiltIn(parent.GroupResource(), name)
	}
	return wrong, known
}

// untilBuiltIn is when to look again whether a controller of Millwright serves the parents, 0 if none ever does.
func (c *Controller) untilBuiltIn(cc *v1alpha1.CompositeController) time.Duration {
	parent, err := gvr(cc.Spec.ParentResource.ResourceRule)
	if c.BuiltIn == nil || err != nil {
		return 0
	}
	if name, _, _ := c.BuiltIn(parent.GroupResource()); name == "" {
		return 0
	}
	return builtInInterval
}
