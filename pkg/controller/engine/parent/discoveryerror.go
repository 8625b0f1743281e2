// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// DiscoveryError is the error of a group of which the API server does not answer which resources it serves: an aggregated API that is down, for instance.
type DiscoveryError struct {
	Group schema.GroupVersion
	Err   error
}

func (e *DiscoveryError) Error() string {
	return fmt.Sprintf("asking the API server which resources of %s it serves: %v", e.Group, e.Err)
}

// Unwrap returns the answer.
func (e *DiscoveryError) Unwrap() error { return e.Err }

// Problem returns what the administrator of the cluster can do about it.
func (e *DiscoveryError) Problem() *Problem {
	message := fmt.Sprintf("the API server does not answer which resources of %s it serves: look at the APIService %s.%s, if the group has one: %v",
		e.Group, e.Group.Version, e.Group.Group, e.Err)
	return &Problem{v1alpha1.ReasonGroupUnavailable, controller.WithoutPorts(controller.Truncate(message, MaxMessage))}
}
