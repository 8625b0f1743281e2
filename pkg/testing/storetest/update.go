// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

var errRefused = errors.New("refused")

var updating = map[string]func(*farm){
	"what was changed is read as it was answered": func(f *farm) {
		created := f.create("dolly")
		updated := f.update("dolly", func(llama *farmv1alpha.Llama) {
			llama.Spec.Weight, llama.Labels = 33, map[string]string{"breed": "suri"}
		})
		if updated.Spec.Weight != 33 || updated.UID != created.UID || number(updated.ResourceVersion) <= number(created.ResourceVersion) {
			f.Errorf("%+v was changed to %+v", created, updated)
		}
		if diff := cmp.Diff(updated, f.get("dolly")); diff != "" {
			f.Errorf("-answered +read:\n%s", diff)
		}
	},
	"what is unchanged is not written": func(f *farm) {
		created := f.create("dolly", func(llama *farmv1alpha.Llama) { llama.Labels = map[string]string{"a": "1", "b": "2"} })
		for _, remembered := range []runtime.Object{nil, created.DeepCopy()} {
			out := &farmv1alpha.Llama{}
			err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), out, false, nil, changing(func(*farmv1alpha.Llama) {}), remembered)
			if err != nil {
				f.Fatal(err)
			}
			if diff := cmp.Diff(created, out); diff != "" {
				f.Errorf("-created +answered:\n%s", diff)
			}
		}
		if diff := cmp.Diff(created, f.get("dolly")); diff != "" {
			f.Errorf("-created +read:\n%s", diff)
		}
	},
	"what is not there is not found, or made where that is wanted": func(f *farm) {
		tried := 0
		update := storage.UpdateFunc(func(object runtime.Object, response storage.ResponseMeta) (runtime.Object, *uint64, error) {
			tried++
			if diff := cmp.Diff(&farmv1alpha.Llama{}, object); diff != "" || response.ResourceVersion != 0 {
				f.Errorf("given %+v at %d", object, response.ResourceVersion)
			}
			return f.llama("dolly"), nil, nil
		})
		out := &farmv1alpha.Llama{}
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), out, false, nil, update, nil); !storage.IsNotFound(err) || tried != 0 {
			f.Errorf("got %v after %d tries", err, tried)
		}
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), out, true, nil, update, nil); err != nil {
			f.Fatal(err)
		}
		if diff := cmp.Diff(out, f.get("dolly")); diff != "" || out.Spec.Weight != 31.4 {
			f.Errorf("-answered +read:\n%s", diff)
		}
	},
	"an update that is not allowed to begin writes nothing": func(f *farm) {
		created := f.create("dolly")
		for name, preconditions := range map[string]*storage.Preconditions{
			"another uid":             storage.NewUIDPreconditions("another"),
			"another resourceVersion": {ResourceVersion: ptr.To(later(created.ResourceVersion))},
		} {
			err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, preconditions, changing(heavier), nil)
			if !storage.IsInvalidObj(err) {
				f.Errorf("%s: %v", name, err)
			}
		}
		if diff := cmp.Diff(created, f.get("dolly")); diff != "" {
			f.Errorf("-created +read:\n%s", diff)
		}
		met := &storage.Preconditions{UID: ptr.To(types.UID("uid-of-dolly")), ResourceVersion: &created.ResourceVersion}
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, met, changing(heavier), nil); err != nil {
			f.Error(err)
		}
	},
	"the caller's own refusal comes back as it is": func(f *farm) {
		created := f.create("dolly")
		refuse := storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return nil, errRefused })
		for _, remembered := range []runtime.Object{nil, created.DeepCopy()} {
			if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, nil, refuse, remembered); err != errRefused {
				f.Errorf("got %v", err)
			}
		}
		if diff := cmp.Diff(created, f.get("dolly")); diff != "" {
			f.Errorf("-created +read:\n%s", diff)
		}
	},
	"what is remembered wrongly is not what is changed": func(f *farm) {
		old := f.create("dolly")
		f.update("dolly", func(llama *farmv1alpha.Llama) { llama.Annotations = map[string]string{"shorn": "yes"} })
		out := &farmv1alpha.Llama{}
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), out, false, nil, changing(heavier), old.DeepCopy()); err != nil {
			f.Fatal(err)
		}
		if out.Annotations["shorn"] != "yes" || out.Spec.Weight != 32.4 {
			f.Errorf("changed to %+v", out)
		}
	},
	"what is remembered wrongly is no reason to refuse": func(f *farm) {
		old := f.create("dolly")
		now := f.update("dolly", func(llama *farmv1alpha.Llama) { llama.Spec.Height = 2 })
		picky := storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			if llama := object.(*farmv1alpha.Llama); llama.Spec.Height != 2 {
				return nil, errRefused
			}
			heavier(object.(*farmv1alpha.Llama))
			return object, nil
		})
		met := &storage.Preconditions{ResourceVersion: &now.ResourceVersion}
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, met, picky, old.DeepCopy()); err != nil {
			f.Errorf("got %v", err)
		}
	},
	"what is remembered wrongly is no reason not to write": func(f *farm) {
		old := f.create("dolly")
		f.update("dolly", func(llama *farmv1alpha.Llama) { llama.Spec.Height = 2 })
		out := &farmv1alpha.Llama{}
		small := func(llama *farmv1alpha.Llama) { llama.Spec.Height = 0.5 }
		if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), out, false, nil, changing(small), old.DeepCopy()); err != nil {
			f.Fatal(err)
		}
		if read := f.get("dolly"); out.Spec.Height != 0.5 || read.Spec.Height != 0.5 {
			f.Errorf("answered %v, read %v", out.Spec.Height, read.Spec.Height)
		}
	},
	"what is remembered may be gone": func(f *farm) {
		old := f.create("dolly")
		f.remove("dolly")
		err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, nil, changing(heavier), old.DeepCopy())
		if !storage.IsNotFound(err) {
			f.Errorf("got %v", err)
		}
	},
}

func heavier(llama *farmv1alpha.Llama) { llama.Spec.Weight++ }
