// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Freeze makes lists and watches show nothing that is newer than now, as a stale cache does: of these resources, or of all.
// Reads of one object and writes see the newest.
func (s *Server) Freeze(resources ...schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeze(len(s.history), resources)
}

// FreezeAt makes lists and watches show nothing that is newer than a resourceVersion.
func (s *Server) FreezeAt(version int64, resources ...schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	point := slices.IndexFunc(s.history, func(c Change) bool { return c.Version > version })
	if point < 0 {
		point = len(s.history)
	}
	s.freeze(point, resources)
}

func (s *Server) freeze(point int, resources []schema.GroupVersionResource) {
	if len(resources) == 0 {
		for resource := range s.resources {
			resources = append(resources, resource)
		}
	}
	for _, resource := range resources {
		s.frozen[resource] = point
	}
}

// Release lets watches of a frozen resource show the next change. It reports whether there was one.
func (s *Server) Release(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for point := s.shown(resource); point < len(s.history); point++ {
		if s.history[point].Resource == resource {
			s.frozen[resource] = point + 1
			s.wake()
			return true
		}
	}
	return false
}

// Thaw ends Freeze and FreezeAt: of these resources, or of all.
func (s *Server) Thaw(resources ...schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(resources) == 0 {
		clear(s.frozen)
	}
	for _, resource := range resources {
		delete(s.frozen, resource)
	}
	s.wake()
}
