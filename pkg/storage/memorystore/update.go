// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"bytes"
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// GuaranteedUpdate implements storage.Interface. What is unchanged is not written. It does not need the object that the caller
// remembers: reading costs nothing here.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	key, err := s.objectKey(key)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		before, _ := s.current(key)
		if before == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		data, err := s.attempt(key, before, preconditions, tryUpdate)
		if err != nil {
			return err
		}
		if before != nil && bytes.Equal(data, before.data) {
			return copyInto(before.object, destination)
		}
		after, done, err := s.write(key, before, data)
		if err != nil {
			return err
		}
		if done {
			return copyInto(after.object, destination)
		}
	}
	return storage.NewTimeoutError(key, ctx.Err().Error())
}

// attempt changes a copy of the object.
func (s *store) attempt(key string, before *entry, preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) ([]byte, error) {
	object, response := s.newObject(), storage.ResponseMeta{}
	if before != nil {
		object, response.ResourceVersion = before.object.DeepCopyObject(), before.resourceVersion
	}
	if err := preconditions.Check(key, object); err != nil {
		return nil, err
	}
	after, _, err := tryUpdate(object, response)
	if err != nil {
		return nil, err
	}
	return s.encode(after)
}

// Delete implements storage.Interface. It does not need the object that the caller remembers.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, _ runtime.Object, options storage.DeleteOptions) error {
	key, err := s.objectKey(key)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		before, _ := s.current(key)
		if before == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if options.ExpectTransformOrDecodeError {
			return storage.NewInvalidObjError(key, "it can be read: delete it without the option to delete what cannot be read")
		}
		if err := preconditions.Check(key, before.object); err != nil {
			return err
		}
		if err := validateDeletion(ctx, before.object.DeepCopyObject()); err != nil {
			return err
		}
		if _, done, err := s.write(key, before, nil); err != nil || done {
			if err != nil {
				return err
			}
			return copyInto(before.object, out)
		}
	}
	return storage.NewTimeoutError(key, ctx.Err().Error())
}
