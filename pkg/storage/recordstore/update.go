// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"bytes"
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// state is an object before it is changed: as it was read, or as the caller remembers it.
type state[P any] struct {
	object P
	// resourceVersion is 0 if there is no such object.
	resourceVersion uint64
	// data is the object as it would be written; nil if there is none.
	data []byte
	// read is false for what the caller remembers, which may be out of date.
	read bool
}

// begin returns the state that is tried first.
func (s *store[T, P]) begin(ctx context.Context, at location, remembered runtime.Object, ignoreNotFound bool) (*state[P], error) {
	if remembered == nil {
		return s.read(ctx, at, ignoreNotFound)
	}
	object, err := target[T, P](remembered)
	if err != nil {
		return nil, err
	}
	return s.state(object)
}

// read reads the state that is true now.
func (s *store[T, P]) read(ctx context.Context, at location, ignoreNotFound bool) (*state[P], error) {
	object := P(new(T))
	if err := s.Get(ctx, at.key, storage.GetOptions{IgnoreNotFound: ignoreNotFound}, object); err != nil {
		return nil, err
	}
	if object.GetResourceVersion() == "" {
		return &state[P]{object: object, read: true}, nil
	}
	current, err := s.state(object)
	if err != nil {
		return nil, err
	}
	current.read = true
	return current, nil
}

func (s *store[T, P]) state(object P) (*state[P], error) {
	resourceVersion, err := s.Versioner().ObjectResourceVersion(object)
	if err != nil {
		return nil, err
	}
	data, err := s.encode(object)
	if err != nil {
		return nil, err
	}
	return &state[P]{object: object, resourceVersion: resourceVersion, data: data}, s.Versioner().UpdateObject(object, resourceVersion)
}

// reconsider returns the state to try again with after a refusal of one that may have been out of date. Where that cannot have been
// the reason, it returns the refusal.
func (s *store[T, P]) reconsider(ctx context.Context, at location, tried *state[P], refusal error, ignoreNotFound bool) (*state[P], error) {
	current, err := s.read(ctx, at, ignoreNotFound)
	if err != nil {
		return nil, err
	}
	// What existed a moment ago, and does not now, was deleted meanwhile.
	if current.resourceVersion == tried.resourceVersion && !storage.IsExist(refusal) {
		return nil, refusal
	}
	return current, nil
}

// GuaranteedUpdate implements storage.Interface. What is unchanged is not written. Objects live until they are deleted: the time to live
// is ignored.
func (s *store[T, P]) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, remembered runtime.Object) error {
	at, err := s.object(key)
	if err != nil {
		return err
	}
	into, err := target[T, P](destination)
	if err != nil {
		return err
	}
	before, err := s.begin(ctx, at, remembered, ignoreNotFound)
	for err == nil {
		var after P
		var data []byte
		if after, data, err = s.attempt(at, before, preconditions, tryUpdate); err != nil {
			if before.read {
				return err
			}
			before, err = s.reconsider(ctx, at, before, err, ignoreNotFound)
			continue
		}
		if bytes.Equal(data, before.data) {
			if before.read {
				return s.unchanged(before, into)
			}
			// Only what is read is known to be the same.
			before, err = s.read(ctx, at, ignoreNotFound)
			continue
		}
		answer, refusal := s.write(ctx, at, data, after.GetLabels(), before.resourceVersion)
		if refusal == nil {
			return s.decode(answer, key, into)
		}
		if !outOfDate(refusal) {
			return s.explain(refusal, at)
		}
		before, err = s.reconsider(ctx, at, before, s.explain(refusal, at), ignoreNotFound)
	}
	return err
}

// attempt changes the object in memory.
func (s *store[T, P]) attempt(at location, before *state[P], preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) (P, []byte, error) {
	if err := preconditions.Check(at.key, before.object); err != nil {
		return nil, nil, err
	}
	changed, _, err := tryUpdate(before.object, storage.ResponseMeta{ResourceVersion: before.resourceVersion})
	if err != nil {
		return nil, nil, err
	}
	after, err := target[T, P](changed)
	if err != nil {
		return nil, nil, err
	}
	data, err := s.encodeChecked(after)
	return after, data, err
}

// unchanged gives out the object as it was before the attempt to change it.
func (s *store[T, P]) unchanged(before *state[P], into P) error {
	*into = *new(T)
	if err := json.Unmarshal(before.data, into); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return s.Versioner().UpdateObject(into, before.resourceVersion)
}

// outOfDate reports whether a write may have been refused because the record is not, or is no longer, what it was taken for.
func outOfDate(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}
