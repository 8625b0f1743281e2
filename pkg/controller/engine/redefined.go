// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/controller/engine/parent"
)

// ownDefinitionChanged syncs all declarations again after their own CustomResourceDefinition has changed: the API server may store more of their status,
// or less.
func (c *Controller) ownDefinitionChanged(before, after *metav1.PartialObjectMetadata) {
	if after.Name != c.Declarations.Resource().String() || !isRedefined(before, after) {
		return
	}
	now := time.Now()
	for _, d := range c.Declarations.List() {
		s := c.state(d.Name)
		s.redefined.Store(&now)
		s.verify.Store(true)
		c.Enqueue(c.declarationKey(d.Name))
	}
}

// verifyStored has what the API server stores of a status verified again after the definition of the declarations has changed. It returns when it is to be
// called next, 0 for never.
func (s *state) verifyStored(now time.Time) time.Duration {
	again, ask := s.redefined.next(now)
	if s.verify.Swap(false) || ask {
		s.recordUnverified, s.statusUnverified = true, true
	}
	return again
}

// conditionsOf returns the conditions of a declaration, also if the API server does not store them.
func (c *Controller) conditionsOf(d *parent.Declaration) []metav1.Condition {
	c.mu.Lock()
	s := c.states[d.Name]
	c.mu.Unlock()
	if s == nil {
		return d.Status.Conditions
	}
	return s.unstored.Load().over(d).Status.Conditions
}

// maxNamed is how many declarations Ready names.
const maxNamed = 3

// Ready implements controller.ReadinessChecker: it names the declarations that are not started because of their own CustomResourceDefinition.
func (c *Controller) Ready() error {
	c.mu.Lock()
	var names []string
	for name, s := range c.states {
		if s.notStored.Load() {
			names = append(names, name)
		}
	}
	c.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("not started, because the API server does not store the record of finalizers in their status: %ss %s: %s",
		c.Declarations.Kind(), strings.Join(names, ", "), otherDefinition(c.Declarations.Resource()))
}
