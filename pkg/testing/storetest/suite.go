// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest tests what k8s.io/apiserver, and through it the users, rely on in a storage of Llamas. It does what a registry does,
// through storage.Interface alone.
//
// k8s.io/apiserver/pkg/storage/testing cannot replace it. Its tests store example Pods, many of them without a namespace, under names of
// namespaces that do not exist: a LlamaRecord of a real API server can hold none of them. On memorystore, which can, they cover 74 % of the
// statements, where storetest covers 89 %; and some of them ask for what only etcd has. They would also bring etcd's client and testify into
// our tests.
package storetest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
)

// Subject is a storage under test. Its keys are /llamas/NAMESPACE/NAME.
type Subject struct {
	storage.Interface
	// Namespace returns the name of an empty namespace of its own for a test.
	Namespace func(t testing.TB) string
}

// Run runs the suite.
func Run(t *testing.T, subject Subject) {
	for _, group := range []map[string]func(*farm){reading, creating, updating, deleting, listing, paging, watching, starting, selecting, racing} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience.Limit)
				defer cancel()
				test(&farm{T: t, Subject: subject, ctx: ctx, namespace: subject.Namespace(t)})
			})
		}
	}
}

// RunForgetting runs the tests of a storage that forget, by that function, makes forget what was before the last write. No other test may
// use the storage.
func RunForgetting(t *testing.T, subject Subject, forget func(t testing.TB)) {
	for name, test := range forgetting {
		t.Run(name, func(t *testing.T) {
			test(&farm{T: t, Subject: subject, ctx: t.Context(), namespace: subject.Namespace(t)}, func() { forget(t) })
		})
	}
}

// farm is what a test has: a namespace.
type farm struct {
	*testing.T
	Subject
	ctx       context.Context
	namespace string
}

func (f *farm) key(name string) string { return f.all() + "/" + name }

func (f *farm) all() string { return "/llamas/" + f.namespace }

// llama returns one that is not stored yet.
func (f *farm) llama(name string) *farmv1alpha.Llama {
	return &farmv1alpha.Llama{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec:       farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5},
	}
}

// create stores a llama.
func (f *farm) create(name string, change ...func(*farmv1alpha.Llama)) *farmv1alpha.Llama {
	f.Helper()
	llama, out := f.llama(name), &farmv1alpha.Llama{}
	for _, change := range change {
		change(llama)
	}
	if err := f.Create(f.ctx, f.key(name), llama, out, 0); err != nil {
		f.Fatalf("creating %s: %v", name, err)
	}
	return out
}

// update changes a llama that is there.
func (f *farm) update(name string, change func(*farmv1alpha.Llama)) *farmv1alpha.Llama {
	f.Helper()
	out := &farmv1alpha.Llama{}
	if err := f.GuaranteedUpdate(f.ctx, f.key(name), out, false, nil, changing(change), nil); err != nil {
		f.Fatalf("updating %s: %v", name, err)
	}
	return out
}

func changing(change func(*farmv1alpha.Llama)) storage.UpdateFunc {
	return storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		change(object.(*farmv1alpha.Llama))
		return object, nil
	})
}

func (f *farm) remove(name string) *farmv1alpha.Llama {
	f.Helper()
	out := &farmv1alpha.Llama{}
	if err := f.Delete(f.ctx, f.key(name), out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		f.Fatalf("deleting %s: %v", name, err)
	}
	return out
}

func (f *farm) get(name string) *farmv1alpha.Llama {
	f.Helper()
	out := &farmv1alpha.Llama{}
	if err := f.Get(f.ctx, f.key(name), storage.GetOptions{}, out); err != nil {
		f.Fatalf("getting %s: %v", name, err)
	}
	return out
}

// list lists the namespace.
func (f *farm) list(options storage.ListOptions) (*farmv1alpha.LlamaList, error) {
	options.Recursive = true
	if options.Predicate.GetAttrs == nil {
		limit, token := options.Predicate.Limit, options.Predicate.Continue
		options.Predicate = everything()
		options.Predicate.Limit, options.Predicate.Continue = limit, token
	}
	list := &farmv1alpha.LlamaList{}
	return list, f.GetList(f.ctx, f.all(), options, list)
}

func (f *farm) mustList(options storage.ListOptions) *farmv1alpha.LlamaList {
	f.Helper()
	list, err := f.list(options)
	if err != nil {
		f.Fatalf("listing: %v", err)
	}
	return list
}

func (f *farm) current() string {
	f.Helper()
	return f.mustList(storage.ListOptions{}).ResourceVersion
}

func names(list *farmv1alpha.LlamaList) []string {
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func everything() storage.SelectionPredicate { return selectedBy("", "") }

// selectedBy is the predicate of selectors, among them one by spec.height, which no API server knows how to select by.
func selectedBy(label, field string) storage.SelectionPredicate {
	byLabel, err := labels.Parse(label)
	if err != nil {
		panic(err)
	}
	return storage.SelectionPredicate{Label: byLabel, Field: fields.ParseSelectorOrDie(field), GetAttrs: attributes}
}

func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	llama := object.(*farmv1alpha.Llama)
	size := "small"
	if llama.Spec.Height > 1 {
		size = "big"
	}
	return llama.Labels, fields.Set{"metadata.name": llama.Name, "metadata.namespace": llama.Namespace, "size": size}, nil
}
