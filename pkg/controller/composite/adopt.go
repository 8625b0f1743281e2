// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
)

// adoption of an object by the parent.
type adoption struct {
	child int // index of its type
	of    resource
	object
}

// adopt makes ownerless objects the parent's, by the index of their type. It looks at the live parent first: one that is being
// deleted, or is another one by now, adopts nothing, and is nil afterwards.
func (s *parentSync) adopt(ctx context.Context, adopting []adoption) (map[int][]object, error) {
	of := s.h.rules.parent
	live, err := s.writer.Get(ctx, of.at(s.key.namespace, s.key.name))
	if apierrors.IsNotFound(err) || err == nil && (live.GetUID() != s.parent.GetUID() || live.Deleting()) {
		s.parent = nil // our watch will show it
		return nil, nil
	}
	if err != nil {
		return nil, s.denied(of, "get", doing("looking before it adopts at", of, s.parent, err))
	}
	adopted := make([]*objectcache.RawObject, len(adopting))
	errs := make([]error, len(adopting))
	controller.Parallel(len(adopting), maxAtOnce, func(i int) {
		adopted[i], errs[i] = s.setOwner(ctx, adopting[i].of, adopting[i].object, true)
	})
	found := map[int][]object{}
	for i, o := range adopted {
		if o != nil {
			found[adopting[i].child] = append(found[adopting[i].child], o)
			s.wroteChild(adopting[i].child, o, changeAdopted)
		}
	}
	return found, errors.Join(errs...)
}

// releaseChild ends that an object is the parent's.
func (s *parentSync) releaseChild(ctx context.Context, child int, of resource, o object) error {
	released, err := s.setOwner(ctx, of, o, false)
	if released != nil {
		s.wroteChild(child, released, changeReleased)
	}
	return err
}

func (s *parentSync) wroteChild(child int, o *objectcache.RawObject, change string) {
	s.changed = true
	s.wrote(s.h.children[child], o.GetResourceVersion())
	countChild(s.h.name, change)
}

// setOwner makes the parent an object's controller, or no longer its owner, if the object is still as it was observed. It returns nil
// if the object is gone.
func (s *parentSync) setOwner(ctx context.Context, of resource, o object, own bool) (*objectcache.RawObject, error) {
	tree, err := treeOf(o)
	if err != nil {
		return nil, err
	}
	metadata := tree["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	owners = slices.DeleteFunc(owners, func(owner any) bool {
		reference, ok := owner.(map[string]any)
		return ok && reference["uid"] == string(s.parent.GetUID())
	})
	what := "releasing"
	if own {
		what = "adopting"
		owners = append(owners, s.h.rules.ownerReference(s.parent))
	}
	if len(owners) == 0 {
		delete(metadata, "ownerReferences")
	} else {
		metadata["ownerReferences"] = owners
	}
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	written, err := s.writer.Update(ctx, of.at(o.GetNamespace(), o.GetName()), body)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.denied(of, "update", doing(what, of, o, err))
	}
	return written, nil
}
