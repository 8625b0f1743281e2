// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

// remember appends to the history and wakes the watches. The lock is held.
func (s *store) remember(written change) {
	if len(s.history) == historyLength {
		s.history = s.history[1:] // which watches may still be reading
	}
	s.history = append(s.history, written)
	close(s.written)
	s.written = make(chan struct{})
}

// since returns what was written after a resourceVersion, and what is closed with the next write. The writes are read only.
func (s *store) since(resourceVersion uint64) (writes []change, next <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resourceVersion > s.resourceVersion {
		return nil, nil, storage.NewTooLargeResourceVersionError(resourceVersion, s.resourceVersion, 1)
	}
	missed := s.resourceVersion - resourceVersion
	if missed > uint64(len(s.history)) {
		return nil, nil, tooOld(resourceVersion, s.resourceVersion-uint64(len(s.history)))
	}
	return s.history[uint64(len(s.history))-missed:], s.written, nil
}

// at returns what was stored at a resourceVersion, the last one for 0, and that resourceVersion.
func (s *store) at(resourceVersion uint64) (map[string]*entry, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resourceVersion == 0 {
		resourceVersion = s.resourceVersion
	}
	if resourceVersion > s.resourceVersion {
		return nil, 0, storage.NewTooLargeResourceVersionError(resourceVersion, s.resourceVersion, 1)
	}
	undone := s.resourceVersion - resourceVersion
	if undone > uint64(len(s.history)) {
		return nil, 0, tooOld(resourceVersion, s.resourceVersion-uint64(len(s.history)))
	}
	entries := maps.Clone(s.entries)
	for i := range undone {
		undo := s.history[uint64(len(s.history))-1-i]
		if undo.before == nil {
			delete(entries, undo.key)
		} else {
			entries[undo.key] = undo.before
		}
	}
	return entries, resourceVersion, nil
}

func tooOld(resourceVersion, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", resourceVersion, oldest))
}
