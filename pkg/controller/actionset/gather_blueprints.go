// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// maxBlueprintBytes is the maximum size of the Blueprints that the actions of an ActionSet name, in bytes of JSON. They are read when a run starts.
const maxBlueprintBytes = 16 << 20

// errAwaitsTurn is the error of a sync that needs a turn and has none. Its key is queued when it has one.
var errAwaitsTurn = errors.New("other ActionSets have the turns of large ones")

// trimBlueprint keeps what identifies a Blueprint, for events about it.
func trimBlueprint(b *v1alpha1.Blueprint) {
	*b = v1alpha1.Blueprint{TypeMeta: b.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion,
	}}
}

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
	for _, action := range actions {
		name := action.Blueprint
		if named[name] == nil || phase.CheckName("blueprint", name) != nil {
			continue
		}
		found, err := s.readBlueprint(ctx, name, named[name])
		if failure, ok := phase.FailureOf(err); ok {
			s.o.blueprintRefusal = failure
			return nil
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading Blueprint %s/%s: %w", s.key.Namespace, name, err)
		default:
			s.o.blueprints[name] = found
			for _, action := range found.Actions {
				s.o.blueprintBytes += sizeOf(action)
			}
		}
		if s.o.blueprintBytes > corev1.MaxSecretSize {
			return nil
		}
		delete(named, name)
	}
	return nil
}

// readBlueprint reads a Blueprint, and returns it with the named actions only.
func (s *syncer) readBlueprint(ctx context.Context, name string, named sets.Set[string]) (*v1alpha1.Blueprint, error) {
	answer := s.Client.CrV1alpha1().RESTClient().Get().Namespace(s.key.Namespace).Resource("blueprints").Name(name).Do(ctx)
	if err := answer.Error(); err != nil {
		return nil, err
	}
	text, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	if s.readBytes += len(text); s.readBytes > maxBlueprintBytes {
		return nil, phase.Failf("the Blueprints that the actions name have more than %d bytes together: use several ActionSets, or smaller Blueprints", maxBlueprintBytes)
	}
	if len(text) > smallObject {
		if !s.takeTurn() {
			return nil, errAwaitsTurn
		}
		release, err := s.decoding.Acquire(ctx, s.key.Namespace)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	found := &v1alpha1.Blueprint{}
	if err := answer.Into(found); err != nil {
		return nil, err
	}
	kept := map[string]v1alpha1.BlueprintAction{} // that of the answer would keep the memory of all actions
	for action := range named {
		if of, ok := found.Actions[action]; ok {
			kept[action] = of
		}
	}
	trimBlueprint(found)
	found.Actions = kept
	return found, nil
}
