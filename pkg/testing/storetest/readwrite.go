// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

var reading = map[string]func(*farm){
	"what was created is read as it was answered": func(f *farm) {
		created := f.create("dolly")
		if created.ResourceVersion == "" || created.Spec.Weight != 31.4 || created.Name != "dolly" || created.Namespace != f.namespace {
			f.Fatalf("created %+v", created)
		}
		if diff := cmp.Diff(created, f.get("dolly")); diff != "" {
			f.Errorf("-answered +read:\n%s", diff)
		}
	},
	"what is not there is not found, or empty where that is wanted": func(f *farm) {
		out := f.llama("before")
		if err := f.Get(f.ctx, f.key("absent"), storage.GetOptions{}, out); !storage.IsNotFound(err) {
			f.Errorf("got %v", err)
		}
		if err := f.Get(f.ctx, f.key("absent"), storage.GetOptions{IgnoreNotFound: true}, out); err != nil {
			f.Error(err)
		}
		if diff := cmp.Diff(&farmv1alpha.Llama{}, out); diff != "" {
			f.Errorf("not empty: %s", diff)
		}
	},
	"a read may be asked to be as new as a resourceVersion": func(f *farm) {
		created := f.create("dolly")
		for _, resourceVersion := range []string{"", "0", created.ResourceVersion} {
			out := &farmv1alpha.Llama{}
			err := f.Get(f.ctx, f.key("dolly"), storage.GetOptions{ResourceVersion: resourceVersion}, out)
			if resourceVersion == "0" && storage.IsNotFound(err) {
				continue // anything may be answered
			}
			if err != nil || out.ResourceVersion != created.ResourceVersion {
				f.Errorf("at %q: %v, %v", resourceVersion, out.ResourceVersion, err)
			}
		}
		err := f.Get(f.ctx, f.key("dolly"), storage.GetOptions{ResourceVersion: later(created.ResourceVersion)}, &farmv1alpha.Llama{})
		if !storage.IsTooLargeResourceVersion(err) {
			f.Errorf("at one that is to come: %v", err)
		}
		if err := f.Get(f.ctx, f.key("dolly"), storage.GetOptions{ResourceVersion: "yesterday"}, &farmv1alpha.Llama{}); err == nil {
			f.Error("at one that is none: no error")
		}
	},
	"what is read belongs to who reads it": func(f *farm) {
		created := f.create("dolly", func(llama *farmv1alpha.Llama) { llama.Labels = map[string]string{"a": "1"} })
		for range 2 {
			read, listed := f.get("dolly"), &f.mustList(storage.ListOptions{}).Items[0]
			for _, llama := range []*farmv1alpha.Llama{read, listed} {
				if diff := cmp.Diff(created, llama); diff != "" {
					f.Errorf("-created +read:\n%s", diff)
				}
				llama.Labels["a"] = "changed"
			}
		}
	},
	"it is ready, counts, and knows the time": func(f *farm) {
		if err := f.ReadinessCheck(); err != nil {
			f.Error(err)
		}
		before, err := f.GetCurrentResourceVersion(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		created := f.create("dolly")
		after, err := f.GetCurrentResourceVersion(f.ctx)
		if err != nil || before >= after || after < number(created.ResourceVersion) {
			f.Errorf("the time was %d, then %s was written, now it is %d, %v", before, created.ResourceVersion, after, err)
		}
		if stats, err := f.Stats(f.ctx); err != nil || stats.ObjectCount < 1 {
			f.Errorf("counted %+v, %v", stats, err)
		}
	},
}

var creating = map[string]func(*farm){
	"what is there is not created again": func(f *farm) {
		first := f.create("dolly")
		other := f.llama("dolly")
		other.Spec.Weight = 1
		if err := f.Create(f.ctx, f.key("dolly"), other, &farmv1alpha.Llama{}, 0); !storage.IsExist(err) {
			f.Errorf("got %v", err)
		}
		if diff := cmp.Diff(first, f.get("dolly")); diff != "" {
			f.Errorf("the first one has changed: %s", diff)
		}
	},
	"a new object has no resourceVersion": func(f *farm) {
		llama := f.llama("dolly")
		llama.ResourceVersion = "7"
		if err := f.Create(f.ctx, f.key("dolly"), llama, nil, 0); err != storage.ErrResourceVersionSetOnCreate {
			f.Errorf("got %v", err)
		}
	},
	"the answer may be ignored": func(f *farm) {
		if err := f.Create(f.ctx, f.key("dolly"), f.llama("dolly"), nil, 0); err != nil {
			f.Error(err)
		}
		f.get("dolly")
	},
	"all of the metadata is kept": func(f *farm) {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		want := f.create("dolly", func(llama *farmv1alpha.Llama) {
			llama.Labels = map[string]string{"farm.example.com/breed": "suri", "empty": ""}
			llama.Annotations = map[string]string{"note": "<&> \u2028 \"ü\""}
			llama.Finalizers = []string{"farm.example.com/shear"}
			llama.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "herd", UID: "herd", Controller: ptr.To(true)}}
			llama.Generation, llama.CreationTimestamp = 7, now
			llama.DeletionTimestamp, llama.DeletionGracePeriodSeconds = &now, ptr.To(int64(0))
			llama.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: "shepherd", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "farm.example.com/v1alpha",
				Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{".":{},"f:weight":{}}}`),
			}}
		})
		if want.UID != "uid-of-dolly" || want.Generation != 7 || len(want.Finalizers) != 1 || len(want.OwnerReferences) != 1 ||
			len(want.ManagedFields) != 1 || want.Annotations["note"] != "<&> \u2028 \"ü\"" || want.Labels["farm.example.com/breed"] != "suri" ||
			!want.DeletionTimestamp.Equal(&now) || !want.CreationTimestamp.Equal(&now) {
			f.Errorf("answered %+v", want)
		}
		if diff := cmp.Diff(want, f.get("dolly")); diff != "" {
			f.Errorf("-answered +read:\n%s", diff)
		}
	},
	"numbers are kept to the last digit": func(f *farm) {
		for i, weight := range []float64{31.4, 70, 0.1 + 0.2, 1e-7, 123456.789, 1e21, 5e-324} {
			name := fmt.Sprintf("llama-%d", i)
			f.create(name, func(llama *farmv1alpha.Llama) { llama.Spec.Weight = weight })
			if read := f.get(name).Spec.Weight; read != weight {
				f.Errorf("%v was read as %v", weight, read)
			}
		}
	},
	"keys of nothing are refused": func(f *farm) {
		for _, key := range []string{"", "/", "/llamas", "/llamas/../" + f.namespace + "/dolly", f.all() + "/..", "/alpacas/" + f.namespace + "/dolly"} {
			if err := f.Create(f.ctx, key, f.llama("dolly"), nil, 0); err == nil {
				f.Errorf("created at %q", key)
			}
			if err := f.Get(f.ctx, key, storage.GetOptions{}, &farmv1alpha.Llama{}); err == nil {
				f.Errorf("read at %q", key)
			}
		}
	},
	"an object of another type is refused": func(f *farm) {
		if err := f.Get(f.ctx, f.key(f.create("dolly").Name), storage.GetOptions{}, &farmv1alpha.FarmPod{}); err == nil {
			f.Error("a Llama was read as a FarmPod")
		}
		if err := f.GetList(f.ctx, f.all(), storage.ListOptions{Recursive: true, Predicate: everything()}, &farmv1alpha.Llama{}); err == nil {
			f.Error("Llamas were listed into a Llama")
		}
	},
}

func number(resourceVersion string) uint64 {
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// later is a resourceVersion that nothing reaches while a test runs.
func later(resourceVersion string) string {
	return strconv.FormatUint(number(resourceVersion)+1_000_000, 10)
}
