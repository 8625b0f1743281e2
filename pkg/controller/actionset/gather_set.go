// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// gatherSet returns the whole ActionSet: a large one, of which the cache has a header, is read. It returns nil if it is gone.
func (s *syncer) gatherSet(ctx context.Context, cached *v1alpha1.ActionSet) (*v1alpha1.ActionSet, error) {
	if !s.large {
		return cached, nil
	}
	if err := s.takeTurn(); err != nil {
		return nil, err
	}
	s.memorySize = memoryOfHeader(cached)
	phase.AddReads(ctx, 1, readsOfSet*s.memorySize)
	set, err := s.Client.CrV1alpha1().ActionSets(s.key.Namespace).Get(ctx, s.key.Name, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the cache is stale, and its next event queues the key
	case err != nil:
		return nil, fmt.Errorf("reading ActionSet %s: %w", s.key, err)
	}
	return set, nil
}
