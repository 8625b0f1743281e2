// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// lost takes over that the API server does not find the parent. Our watch shows that it was deleted; no event shows that its type is served again.
func (s *parentSync) lost() {
	s.parent = nil
	s.again = RightsRetryInterval
}

// setFinalizer adds or removes our finalizer, and takes over the written parent. The parent is nil afterwards if it was deleted.
func (s *parentSync) setFinalizer(ctx context.Context, add, remove bool) error {
	if !add && !remove {
		return nil
	}
	finalizers := without(s.parent.GetFinalizers(), s.spec.finalizer)
	if add {
		finalizers = append(finalizers, s.spec.finalizer)
	}
	of := s.of.Resource
	written, err := s.spec.kind.writeFinalizers(ctx, s.Writer, of.at(s.key.Namespace, s.key.Name), s.parent, finalizers)
	if apierrors.IsNotFound(err) {
		s.lost()
		return nil
	}
	if err != nil {
		return s.denied(of, s.spec.kind.writeVerb(), doing("changing the finalizers of", of, s.parent, err))
	}
	s.parentWritten(written)
	return nil
}

func (s *parentSync) parentWritten(written *objectcache.RawObject) {
	s.changed = true
	s.recordWrite(s.of.handle, written.GetResourceVersion())
	s.parent = written
}

// writeParent writes the status of the parent, and the labels and annotations of a target: each only if needed, and with the observed version as a
// precondition.
func (s *parentSync) writeParent(ctx context.Context, p *plan) []error {
	switch {
	case s.spec.kind == Composite && p.status != nil:
		return []error{s.writeStatus(ctx, p.status)}
	case p.status != nil && !s.of.Status: // the status is a field like any other
		return []error{s.patchTarget(ctx, p.metadata, p.status)}
	}
	var errs []error
	if p.metadata != nil {
		err := s.patchTarget(ctx, p.metadata, nil)
		if errs = append(errs, err); apierrors.IsConflict(err) {
			return errs // so would the status: it has the same version as a precondition
		}
	}
	if p.status != nil && s.parent != nil {
		errs = append(errs, s.writeStatus(ctx, p.status))
	}
	return errs
}

// patchTarget changes labels and annotations of a target, and its status if that has no subresource.
func (s *parentSync) patchTarget(ctx context.Context, change *metadataChange, status map[string]any) error {
	of := s.of.Resource
	body, err := patchOf(s.parent, change, status)
	if err != nil {
		return err
	}
	before := s.parent.GetResourceVersion()
	written, err := s.Writer.Patch(ctx, of.at(s.key.Namespace, s.key.Name), body)
	if apierrors.IsNotFound(err) {
		s.again = RightsRetryInterval
		return nil
	}
	if err != nil {
		return asRejected(hook.ReasonInvalidResponse, asTooLarge(s.denied(of, "patch", doing("writing what the hook desires of", of, s.parent, err))))
	}
	if change != nil {
		s.state.history.recordMetadataDone()
	}
	if status != nil {
		s.state.history.recordStatusDone(status, before, written)
	}
	s.parentWritten(written)
	return nil
}

// writeStatus writes the status of the parent.
func (s *parentSync) writeStatus(ctx context.Context, status map[string]any) error {
	of := s.of.Resource
	before := s.parent.GetResourceVersion()
	written, err := s.putStatus(ctx, of, status)
	if apierrors.IsNotFound(err) {
		s.again = RightsRetryInterval // the parent is gone, or its type has no status for a while
		return nil
	}
	if controller.IsTooLarge(err) {
		err = asTooLarge(doing("writing the status of", of, s.parent, err))
		s.state.history.recordStatusTooLarge(status, before, err.Error())
		return err
	}
	if err != nil {
		if isDenied(err) {
			of.Resource += "/status"
		}
		return asRejected(hook.ReasonInvalidResponse, s.denied(of, s.spec.kind.writeVerb(), doing("writing the status of", of, s.parent, err)))
	}
	s.state.history.recordStatusDone(status, before, written)
	s.parentWritten(written)
	return nil
}

// putStatus sends the status of a parent as a whole, and what differs in that of a target.
func (s *parentSync) putStatus(ctx context.Context, of Resource, status map[string]any) (*objectcache.RawObject, error) {
	name := of.at(s.key.Namespace, s.key.Name)
	if s.spec.kind == Decorator {
		body, err := patchOf(s.parent, nil, status)
		if err != nil {
			return nil, err
		}
		return s.Writer.Patch(ctx, name, body, "status")
	}
	body, err := withStatus(s.parent, status)
	if err != nil {
		return nil, err
	}
	return s.Writer.UpdateStatus(ctx, name, body)
}
