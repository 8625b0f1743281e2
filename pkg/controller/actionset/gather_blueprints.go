// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/jsonscan"
	"millwright.dev/pkg/phase"
)

// maxBlueprintBytes is the maximum size of the Blueprints that the actions of an ActionSet name, in bytes of JSON. They are read when a run starts.
const maxBlueprintBytes = 16 << 20

// gatherBlueprints reads the Blueprints that a start needs, from the API server: a run that was started from a stale Blueprint, or rejected because of one,
// stays so. It keeps the actions that are named. When these exceed the size of a snapshot, it reads no further Blueprint.
func (s *syncer) gatherBlueprints(ctx context.Context) error {
	if !needsBlueprints(s.o) {
		return nil
	}
	actions := s.o.set.Spec.Actions
	named := map[string]sets.Set[string]{}
	for _, action := range actions {
		if named[action.Blueprint] == nil {
			named[action.Blueprint] = sets.New[string]()
		}
		named[action.Blueprint].Insert(action.Name)
	}
	for name := range named {
		if cached, err := s.Controller.blueprints.Blueprints(s.key.Namespace).Get(name); err == nil && isHeader(cached) {
			if err := s.takeTurn(); err != nil {
				return err
			}
		}
	}
	read, kept := 0, 0
	for _, action := range actions {
		name := action.Blueprint
		if named[name] == nil || phase.CheckName("blueprint", name) != nil {
			continue
		}
		found, size, err := s.getBlueprint(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			delete(named, name)
			continue
		case err != nil:
			return fmt.Errorf("reading Blueprint %s/%s: %w", s.key.Namespace, name, err)
		}
		if read += size; read > maxBlueprintBytes {
			s.o.blueprintsTooLarge = fmt.Sprintf("the Blueprints that the actions name have more than %d bytes together: use several ActionSets, or smaller Blueprints",
				maxBlueprintBytes)
			return nil
		}
		if read > smallObject {
			if err := s.takeTurn(); err != nil {
				return err
			}
		}
		blueprint, err := s.decodeBlueprint(ctx, found, size, named[name])
		if err != nil {
			return fmt.Errorf("reading Blueprint %s/%s: %w", s.key.Namespace, name, err)
		}
		for _, action := range blueprint.Actions {
			kept += sizeOf(action)
		}
		if kept > corev1.MaxSecretSize {
			s.o.blueprintsTooLarge = snapshotTooLarge(kept)
			return nil
		}
		s.o.blueprints[name] = blueprint
		delete(named, name)
	}
	return nil
}

// getBlueprint returns a Blueprint that is not decoded yet, and its size in bytes of JSON: a typed client would decode it, however large it is.
func (s *syncer) getBlueprint(ctx context.Context, name string) (rest.Result, int, error) {
	found := s.Client.CrV1alpha1().RESTClient().Get().Namespace(s.key.Namespace).Resource("blueprints").Name(name).Do(ctx)
	if err := found.Error(); err != nil {
		return found, 0, err
	}
	text, err := found.Raw()
	if len(text) > smallObject {
		phase.AddReads(ctx, 1, jsonscan.DecodedMemory(text))
	}
	return found, len(text), err
}

// decodeBlueprint returns a Blueprint of that size with the named actions only.
func (s *syncer) decodeBlueprint(ctx context.Context, found rest.Result, size int, named sets.Set[string]) (*v1alpha1.Blueprint, error) {
	if size > smallObject {
		release, err := s.decoding.Acquire(ctx, s.key.Namespace)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	blueprint := &v1alpha1.Blueprint{}
	if err := found.Into(blueprint); err != nil {
		return nil, err
	}
	kept := map[string]v1alpha1.BlueprintAction{} // the decoded map would keep the memory of all actions
	for action := range named {
		if of, ok := blueprint.Actions[action]; ok {
			kept[action] = of
		}
	}
	blueprint.Actions = nil
	trimBlueprint(blueprint)
	blueprint.Actions = kept
	return blueprint, nil
}
