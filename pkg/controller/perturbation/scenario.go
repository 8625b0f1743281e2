// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Scenario is what a user does, and what must come of it.
type Scenario struct {
	Name string
	// Start runs one instance of the controller for the namespace, and returns when the context has ended and all that
	// it started has, too.
	Start func(ctx context.Context, config *rest.Config, namespace string) error
	// Resources whose objects are the state that is compared, and of which the invariants speak.
	Resources []schema.GroupVersionResource
	// Given are acts that come first. What the controller writes in them is disturbed in another scenario, and not here.
	Given []Act
	// Acts of the user, in order; each begins when the one before has come to its end.
	Acts []Act
	// Normalize takes out of an object what may differ from one run to another, beside names, times, versions and
	// generations. Optional.
	Normalize func(object *unstructured.Unstructured)
	// Flicker is a change and its reverse, which a controller may miss. Optional.
	Flicker func(ctx context.Context, user *User) error
	// Invariants must hold over the whole history of a run.
	Invariants []Invariant
	// Quiet is for how long nothing must be written before a run counts as converged: longer than the controller's own
	// intervals. Default: 400 ms.
	Quiet time.Duration
}

// Act is one thing that a user does.
type Act struct {
	Name string
	Do   func(ctx context.Context, user *User) error
	// Until tells whether the controller has done its part. It is asked again and again; an error means not yet.
	Until func(ctx context.Context, user *User) (bool, error)
}

// User is who acts in a scenario: an administrator whose requests are never disturbed.
type User struct {
	Config    *rest.Config
	Client    dynamic.Interface
	Namespace string
}

// Get reads an object of the namespace.
func (u *User) Get(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return u.Client.Resource(resource).Namespace(u.Namespace).Get(ctx, name, getOptions)
}

// Change is one observation in the history of a run, in the order in which the API server made them.
type Change struct {
	Resource schema.GroupVersionResource
	Deleted  bool
	Object   *unstructured.Unstructured
}

// Invariant looks at the whole history of a run. Its error says what was violated, when.
type Invariant struct {
	Name  string
	Check func(history []Change) error
}

func (s *Scenario) quiet() time.Duration {
	if s.Quiet == 0 {
		return 400 * time.Millisecond
	}
	return s.Quiet
}

func (s *Scenario) resource(name string) (schema.GroupVersionResource, error) {
	for _, resource := range s.Resources {
		if resource.Resource == name {
			return resource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("scenario %s: its controller watches %s, which is not among its Resources", s.Name, name)
}
