// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"io"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/testcluster"
)

// BenchmarkStorage compares the storage with plain requests for records whose responses are not decoded.
func BenchmarkStorage(b *testing.B) {
	cluster := testcluster.Shared(b)
	store, namespace := newStore(b, cluster), cluster.Namespace(b)
	_, ours := clients(b, cluster)
	raw := func(path string) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				discard(b, ours.FarmStorageV1().RESTClient(), "namespaces/"+namespace+"/llamarecords"+path)
			}
		}
	}
	fill(b, store, namespace, 5000)
	b.Run("get/records", raw("/llama-7"))
	b.Run("get/llamas", func(b *testing.B) {
		for b.Loop() {
			if err := store.Get(b.Context(), "/llamas/"+namespace+"/llama-7", storage.GetOptions{}, &farmv1alpha.Llama{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list/records", raw(""))
	b.Run("list/llamas", func(b *testing.B) {
		for b.Loop() {
			list := &farmv1alpha.LlamaList{}
			if err := store.GetList(b.Context(), "/llamas/"+namespace, storage.ListOptions{Recursive: true}, list); err != nil || len(list.Items) != 5000 {
				b.Fatal(len(list.Items), err)
			}
		}
	})
}

func discard(b *testing.B, client rest.Interface, path string) {
	b.Helper()
	body, err := client.Get().AbsPath("/apis/storage.farm.example.com/v1/" + path).Stream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		b.Fatal(err)
	}
}

// fill creates Llamas with the managedFields of an apply.
func fill(b *testing.B, store storage.Interface, namespace string, count int) {
	b.Helper()
	var writers sync.WaitGroup
	for writer := range 16 {
		writers.Go(func() {
			for i := writer; i < count; i += 16 {
				llama := newLlama(namespace, fmt.Sprint("llama-", i))
				llama.CreationTimestamp, llama.Generation = metav1.Now(), 1
				llama.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "farm.example.com/v1alpha", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:breed":{}}},"f:spec":{".":{},"f:height":{},"f:weight":{}}}`),
				}}
				if _, err := create(b, store, llama); err != nil {
					b.Error(err)
				}
			}
		})
	}
	writers.Wait()
}
