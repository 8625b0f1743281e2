// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// writeChild creates or updates a child.
func (s *parentSync) writeChild(ctx context.Context, step childStep, name objectwriter.Name) (*objectcache.RawObject, error) {
	object := step.object
	if step.serverSide {
		object = step.configuration()
	}
	body, err := json.Marshal(object)
	switch {
	case err != nil:
		return nil, fmt.Errorf("encoding the child: %w", err)
	case step.serverSide: // an apply that only creates takes nothing from other managers
		return s.Writer.Apply(ctx, name, body, s.FieldManager, step.verb != verbCreate)
	case step.verb == verbCreate:
		return s.Writer.Create(ctx, name, body)
	default:
		return s.Writer.Update(ctx, name, body)
	}
}

// updateManaged updates a child for which its managedFields are needed, to find what was applied last: the strategy has changed, or the child has to be
// created again if a field is removed.
func (s *parentSync) updateManaged(ctx context.Context, step childStep, name objectwriter.Name) stepResult {
	live, err := s.Writer.GetManaged(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return stepResult{lost: true}
	case err != nil:
		return stepResult{err: s.denied(step.in, "get", fmt.Errorf("getting %s: %w", step.child, err))}
	case live.GetUID() != step.uid || live.GetResourceVersion() != step.resourceVersion:
		return s.failed(step, "", apierrors.NewConflict(step.in.GroupResource(), name.Name, errors.New("it has changed since it was observed")))
	}
	managed, err := treeOf(live)
	if err != nil {
		return stepResult{err: fmt.Errorf("reading %s: %w", step.child, err)}
	}
	if step.removes(managed, s.FieldManager) {
		step.verb = verbRecreate
		result := s.deleteChild(ctx, step, name)
		result.recreates = true
		return result
	}
	if step.switched && step.serverSide {
		taken, err := s.takeOver(ctx, managed, step, name)
		switch {
		case apierrors.IsNotFound(err):
			return stepResult{lost: true}
		case err != nil:
			return s.failed(step, "patch", err)
		}
		step.resourceVersion = taken.GetResourceVersion()
	}
	if step.switched && !step.serverSide {
		if step.object, err = updateOwned(managed, step.desired, s.FieldManager); err != nil {
			return stepResult{err: err}
		}
	}
	return s.applyWrite(ctx, step, name)
}

// applyOrRecreate creates a child again only if an apply to it would change a value, by a dry run: the API server knows which elements of lists are whose, and
// how it writes values. The dry run also refuses what no apply could create.
func (s *parentSync) applyOrRecreate(ctx context.Context, step childStep, name objectwriter.Name) stepResult {
	changes, err := s.applyChanges(ctx, step, name)
	switch {
	case apierrors.IsNotFound(err):
		return stepResult{lost: true}
	case err != nil:
		return s.failed(step, "patch", err)
	case !changes && step.orRecreate:
		return s.applyWrite(ctx, step, name)
	case !changes && step.trial != nil:
		return stepResult{futile: true, asDesired: true}
	case !step.orRecreate:
		return s.deleteChild(ctx, step, name)
	}
	step.verb = verbRecreate
	result := s.deleteChild(ctx, step, name)
	result.recreates = true
	return result
}

// applyChanges reports whether an apply to a child changes any value. One that the API server or admission refuses is a change: a creation may be accepted.
func (s *parentSync) applyChanges(ctx context.Context, step childStep, name objectwriter.Name) (changes bool, err error) {
	body, err := json.Marshal(step.configuration())
	if err != nil {
		return false, fmt.Errorf("encoding the child: %w", err)
	}
	applied, err := s.Writer.TryApply(ctx, name, body, s.FieldManager)
	switch {
	case err == nil:
	case isUpdateRefusal(err):
		return true, nil
	default:
		return false, fmt.Errorf("applying it in a dry run, to see whether it would change: %w", err)
	}
	after, err := treeOf(applied)
	if err != nil {
		return false, fmt.Errorf("reading the result of a dry run: %w", err)
	}
	return hasChanged(step.observed, after), nil
}

// takeOver makes us the manager of what dynamic apply has written. If only this is done, the next sync applies the rest.
func (s *parentSync) takeOver(ctx context.Context, managed map[string]any, step childStep, name objectwriter.Name) (*objectcache.RawObject, error) {
	patch, err := takeOverPatch(managed, step, s.FieldManager)
	if err != nil {
		return nil, err
	}
	return s.Writer.Patch(ctx, name, patch)
}

// exists reports whether a step has failed because an object of the name exists.
func (s childStep) exists(err error) bool {
	return s.verb == verbCreate && (apierrors.IsAlreadyExists(err) || s.serverSide && apierrors.IsConflict(err))
}

// deniedVerb returns the right that a refused write needs. An apply needs that to patch, and if it creates, that to create.
func (s childStep) deniedVerb(err error) string {
	if s.serverSide && (s.verb == verbUpdate || strings.Contains(err.Error(), "cannot patch ")) {
		return "patch"
	}
	return string(s.verb)
}
