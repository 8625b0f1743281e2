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

// Scenario is what a user does, and what the controller must make of it.
type Scenario struct {
	Name string
	// Start runs one instance of the controller for the namespace. It returns when the context has ended and all goroutines of the
	// instance have ended, too.
	Start func(ctx context.Context, config *rest.Config, namespace string) error
	// Resources are those whose objects are the state that is compared, and the history that the invariants check.
	Resources []schema.GroupVersionResource
	// ClusterScoped are those of Resources that have no namespace. Objects of a run have RunLabel. Optional.
	ClusterScoped []schema.GroupVersionResource
	// Given are acts that come first. Writes of the controller during these acts are no points: other scenarios disturb them.
	Given []Act
	// Acts of the user, in order. Each begins when the controller has done its part of the one before.
	Acts []Act
	// Normalize removes from an object what may differ between runs, in addition to names, times, versions and generations. Optional.
	Normalize func(object *unstructured.Unstructured)
	// Flicker is a change and its reverse, which a controller may miss. Optional.
	Flicker func(ctx context.Context, user *User) error
	// Invariants must hold over the whole history of a run.
	Invariants []Invariant
	// Quiet is the time without a write after which a run counts as converged. It must be longer than the controller's own intervals.
	// Default: 400 ms.
	Quiet time.Duration
}

// Act is one thing that a user does.
type Act struct {
	Name string
	Do   func(ctx context.Context, user *User) error
	// Lagging is a resource whose watch is frozen during the act and for a while after it. Optional.
	Lagging string
	// Until reports whether the controller has done its part. It is called until it returns true. An error means not yet.
	Until func(ctx context.Context, user *User) (bool, error)
}

// Change is one entry in the history of a run: a new version of an object, or its deletion. Changes are in the order of versions.
type Change struct {
	Resource schema.GroupVersionResource
	Deleted  bool
	Object   *unstructured.Unstructured
}

// Write is a write that a controller has sent to the API server, events excepted.
type Write struct {
	// Instance of the controller: the first is 1.
	Instance int
	// Verb and Resource as in a Point.
	Verb, Resource, Name string
	// Code is the HTTP status code of the answer. It is 0 if there was no answer, for instance because the instance was killed before: the API
	// server has made the write, or not.
	Code int
}

// Invariant checks the whole history of a run. Its error names the violation and the version at which it occurred.
type Invariant struct {
	Name  string
	Check func(history []Change) error
	// CheckWrites checks the history and the requests of the controller. Optional, as is Check.
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
