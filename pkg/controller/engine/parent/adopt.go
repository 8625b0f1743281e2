// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
)

// adoption of an orphan by the parent.
type adoption struct {
	child int // index of its type in Spec.children
	of    Resource
	object
}

// adopt makes the parent the controller of orphans, and returns them by the index of their type. It gets the live parent first: a parent that
// is being deleted, or was replaced, adopts nothing, and s.parent is nil afterwards.
func (s *parentSync) adopt(ctx context.Context, adoptions []adoption) (map[int][]object, error) {
	of := s.of.Resource
	live, err := s.Writer.Get(ctx, of.at(s.key.Namespace, s.key.Name))
	switch {
	case apierrors.IsNotFound(err):
		s.lost()
		return nil, nil
	case err != nil:
		return nil, s.denied(of, "get", doing("getting before an adoption the live", of, s.parent, err))
	case live.GetUID() != s.parent.GetUID() || live.Deleting():
		s.parent = nil // our watch will show it
		return nil, nil
	}
	adopted := make([]*objectcache.RawObject, len(adoptions))
	errs := make([]error, len(adoptions))
	controller.Parallel(len(adoptions), maxParallelWrites, func(i int) {
		adopted[i], errs[i] = s.setOwner(ctx, adoptions[i].of, adoptions[i].object, true)
	})
	found := map[int][]object{}
	for i, o := range adopted {
		switch {
		case o != nil:
			found[adoptions[i].child] = append(found[adoptions[i].child], o)
			s.recordChildWrite(adoptions[i].child, o, changeAdopted)
		case errs[i] == nil:
			s.again = RightsRetryInterval
		}
	}
	return found, errors.Join(errs...)
}

// releaseChild removes the parent from the owners of an object.
func (s *parentSync) releaseChild(ctx context.Context, child int, of Resource, o object) error {
	released, err := s.setOwner(ctx, of, o, false)
	switch {
	case released != nil:
		s.recordChildWrite(child, released, changeReleased)
	case err == nil:
		s.again = RightsRetryInterval
	}
	return err
}

func (s *parentSync) recordChildWrite(child int, o *objectcache.RawObject, change string) {
	s.changed = true
	s.recordWrite(s.Controller.children[child], o.GetResourceVersion())
	countChild(s.spec.kind, s.name, change)
}

// setOwner makes the parent the controller of an object, or removes it from its owners, with the observed resourceVersion as a precondition. It
// returns nil if the API server does not find the object: it was deleted, or its type is not served for a while, which no event shows.
func (s *parentSync) setOwner(ctx context.Context, of Resource, o object, own bool) (*objectcache.RawObject, error) {
	body, err := s.of.withOwner(o, s.parent, own)
	if err != nil {
		return nil, err
	}
	written, err := s.Writer.Update(ctx, of.at(o.GetNamespace(), o.GetName()), body)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		what := "releasing"
		if own {
			what = "adopting"
		}
		return nil, s.denied(of, "update", doing(what, of, o, err))
	}
	return written, nil
}
