// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// errAwaitsTurn is the error of a sync that needs a turn and has none. Its key is queued when it has one.
var errAwaitsTurn = errors.New("other ActionSets have the turns of large ones")

// gatherSet returns the whole ActionSet: a large one, of which the cache has a header, is read. It returns nil if it is gone.
func (s *syncer) gatherSet(ctx context.Context, cached *v1alpha1.ActionSet) (*v1alpha1.ActionSet, error) {
	if !s.large {
		return cached, nil
	}
	if !s.takeTurn() {
		return nil, errAwaitsTurn
	}
	set, err := s.Client.CrV1alpha1().ActionSets(s.key.Namespace).Get(ctx, s.key.Name, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the cache is stale, and its next event queues the key
	case err != nil:
		return nil, fmt.Errorf("reading ActionSet %s: %w", s.key, err)
	}
	return set, nil
}

// takeTurn reports whether this sync has a turn.
func (s *syncer) takeTurn() bool {
	if !s.hasTurn {
		s.hasTurn = s.largeSyncs.take(s.key, s.urgent)
	}
	return s.hasTurn
}

// endTurn ends the turn of a sync with that error. If the sync has needed none, one that the key was given, or its place among those that wait, is given up.
func (s *syncer) endTurn(err error) {
	switch {
	case s.hasTurn:
		s.largeSyncs.end(s.key)
	case !errors.Is(err, errAwaitsTurn):
		s.largeSyncs.leave(s.key)
	}
}
