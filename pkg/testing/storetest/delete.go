// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

var deleting = map[string]func(*farm){
	"a deleted object is reported for the last time": func(f *farm) {
		created := f.create("dolly")
		last := f.remove("dolly")
		last.ResourceVersion = created.ResourceVersion // some storages do not learn that of the deletion
		if diff := cmp.Diff(created, last); diff != "" {
			f.Errorf("-created +last:\n%s", diff)
		}
		if err := f.Get(f.ctx, f.key("dolly"), storage.GetOptions{}, &farmv1alpha.Llama{}); !storage.IsNotFound(err) {
			f.Errorf("it is still there: %v", err)
		}
		if again := f.create("dolly"); number(again.ResourceVersion) <= number(created.ResourceVersion) {
			f.Errorf("the second dolly has resourceVersion %s, the first had %s", again.ResourceVersion, created.ResourceVersion)
		}
	},
	"what is not there cannot be deleted": func(f *farm) {
		if err := f.delete("absent", nil, storage.ValidateAllObjectFunc, nil); !storage.IsNotFound(err) {
			f.Errorf("got %v", err)
		}
		old := f.create("dolly")
		f.remove("dolly")
		if err := f.delete("dolly", nil, storage.ValidateAllObjectFunc, old); !storage.IsNotFound(err) {
			f.Errorf("what is remembered: %v", err)
		}
	},
	"a deletion that is not allowed deletes nothing": func(f *farm) {
		created := f.create("dolly")
		refuse := func(context.Context, runtime.Object) error { return errRefused }
		if err := f.delete("dolly", nil, refuse, nil); err != errRefused {
			f.Errorf("got %v", err)
		}
		if err := f.delete("dolly", storage.NewUIDPreconditions("another"), storage.ValidateAllObjectFunc, nil); !storage.IsInvalidObj(err) {
			f.Errorf("another uid: %v", err)
		}
		wrong := &storage.Preconditions{ResourceVersion: ptr.To(later(created.ResourceVersion))}
		if err := f.delete("dolly", wrong, storage.ValidateAllObjectFunc, created); !storage.IsInvalidObj(err) {
			f.Errorf("another resourceVersion: %v", err)
		}
		f.get("dolly")
		met := &storage.Preconditions{UID: &created.UID, ResourceVersion: &created.ResourceVersion}
		if err := f.delete("dolly", met, storage.ValidateAllObjectFunc, nil); err != nil {
			f.Errorf("what is allowed: %v", err)
		}
	},
	"what is remembered wrongly decides nothing about a deletion": func(f *farm) {
		old := f.create("dolly")
		now := f.update("dolly", func(llama *farmv1alpha.Llama) { llama.Spec.Height = 2 })
		small := func(_ context.Context, object runtime.Object) error {
			if object.(*farmv1alpha.Llama).Spec.Height > 1 {
				return errRefused
			}
			return nil
		}
		if err := f.delete("dolly", nil, small, old); err != errRefused {
			f.Errorf("the old one may be deleted, the new one may not: %v", err)
		}
		big := func(_ context.Context, object runtime.Object) error {
			if object.(*farmv1alpha.Llama).Spec.Height < 1 {
				return errRefused
			}
			return nil
		}
		met := &storage.Preconditions{ResourceVersion: &now.ResourceVersion}
		if err := f.delete("dolly", met, big, old); err != nil {
			f.Errorf("the new one may be deleted, the old one may not: %v", err)
		}
	},
	"what changes while it is deleted is looked at again": func(f *farm) {
		f.create("dolly")
		looked := 0
		look := func(_ context.Context, object runtime.Object) error {
			if looked++; looked == 1 {
				f.update("dolly", func(llama *farmv1alpha.Llama) { llama.Finalizers = []string{"farm.example.com/shear"} })
				return nil
			}
			if len(object.(*farmv1alpha.Llama).Finalizers) == 0 {
				f.Error("the old one was looked at again")
			}
			return errRefused
		}
		if err := f.delete("dolly", nil, look, nil); err != errRefused || looked != 2 {
			f.Errorf("got %v after %d looks", err, looked)
		}
		f.get("dolly")
	},
	"what can be read is not deleted as what cannot": func(f *farm) {
		f.create("dolly")
		err := f.Delete(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, nil,
			storage.DeleteOptions{ExpectTransformOrDecodeError: true})
		if !storage.IsInvalidObj(err) {
			f.Errorf("got %v", err)
		}
		f.get("dolly")
	},
}

func (f *farm) delete(name string, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, remembered *farmv1alpha.Llama) error {
	var object runtime.Object
	if remembered != nil {
		object = remembered.DeepCopy()
	}
	return f.Delete(f.ctx, f.key(name), &farmv1alpha.Llama{}, preconditions, validate, object, storage.DeleteOptions{})
}
