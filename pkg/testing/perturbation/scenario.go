// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// ClusterScoped are those of Resources that have no namespace. Objects of a run carry RunLabel. Optional.
	ClusterScoped []schema.GroupVersionResource
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
	// Lagging is a resource of which the controller is told nothing new until a while after the act. Optional.
	Lagging string
	// Until tells whether the controller has done its part. It is asked again and again; an error means not yet.
	Until func(ctx context.Context, user *User) (bool, error)
}

// Change is one observation in the history of a run, in the order in which the API server made them.
type Change struct {
	Resource schema.GroupVersionResource
	Deleted  bool
	Object   *unstructured.Unstructured
}

// Write is a request of a controller that the API server has answered, events excepted.
type Write struct {
	// Instance of the controller: the first is 1.
	Instance int
	// Verb and Resource as in a Point.
	Verb, Resource, Name string
	// Code is the status code of the answer.
	Code int
}

// Invariant looks at the whole history of a run. Its error says what was violated, when.
type Invariant struct {
	Name  string
	Check func(history []Change) error
	// CheckWrites looks at what the controller has asked for as well. Optional, as is Check.
	CheckWrites func(history []Change, writes []Write) error
}

func (i Invariant) check(history []Change, writes []Write) error {
	var errs [2]error
	if i.Check != nil {
		errs[0] = i.Check(history)
	}
	if i.CheckWrites != nil {
		errs[1] = i.CheckWrites(history, writes)
	}
	return errors.Join(errs[:]...)
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
