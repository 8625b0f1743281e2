// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Delete implements storage.Interface. The object that it gives out has the resourceVersion that it had last: that of the deletion
// stands in the event of a watch, but not in the answer to the deletion of a custom resource.
func (s *store[T, P]) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, remembered runtime.Object, options storage.DeleteOptions) error {
	at, err := s.object(key)
	if err != nil {
		return err
	}
	into, err := target[T, P](out)
	if err != nil {
		return err
	}
	if options.ExpectTransformOrDecodeError {
		return s.deleteUndecodable(ctx, at, validateDeletion)
	}
	last, err := s.begin(ctx, at, remembered, false)
	for err == nil {
		refusal := preconditions.Check(key, last.object)
		if refusal == nil {
			refusal = validateDeletion(ctx, last.object)
		}
		if refusal == nil {
			refusal = s.records.remove(ctx, at, last.resourceVersion)
			if refusal == nil {
				*into = *last.object.DeepCopyObject().(P)
				return nil
			}
			if !outOfDate(refusal) {
				return s.explain(refusal, at)
			}
			refusal = s.explain(refusal, at)
		} else if last.read {
			return refusal
		}
		last, err = s.reconsider(ctx, at, last, refusal, false)
	}
	return err
}

// deleteUndecodable deletes a record that holds no object, and no other.
func (s *store[T, P]) deleteUndecodable(ctx context.Context, at location, validateDeletion storage.ValidateObjectFunc) error {
	answer, err := s.records.get(ctx, at, "")
	if err != nil {
		return s.explain(err, at)
	}
	if err := s.decode(answer, at.key, new(T)); !storage.IsCorruptObject(err) {
		return storage.NewInvalidObjError(at.key, "it can be read: delete it without the option to delete what cannot be read")
	}
	record, err := outlineOf(answer)
	if err != nil {
		return errors.Join(errNoRecord, err)
	}
	resourceVersion, err := strconv.ParseUint(string(record.resourceVersion), 10, 64)
	if err != nil {
		return errors.Join(errNoRecord, err)
	}
	if err := validateDeletion(ctx, nil); err != nil {
		return err
	}
	return s.explain(s.records.remove(ctx, at, resourceVersion), at)
}

var errNoRecord = errors.New("what the API server has sent as a record is none")
