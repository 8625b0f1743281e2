// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestCachedObjectIsNotStale(t *testing.T) {
	store, _ := newServer(t, answering(200, applied("dolly", 7)), answering(200, strings.Replace(applied("dolly", 8), "31.4", "33", 1)),
		answering(200, applied("dolly", 9)))
	for i, want := range []float64{31.4, 33, 31.4, 31.4} { // the last answer comes twice
		read := &farmv1alpha.Llama{}
		if err := store.Get(t.Context(), "/llamas/default/dolly", storage.GetOptions{}, read); err != nil {
			t.Fatal(err)
		}
		if read.Spec.Weight != want || read.Labels["breed"] != "suri" || read.ResourceVersion != fmt.Sprint(min(7+i, 9)) || read.ManagedFields[0].Manager != "kubectl" {
			t.Errorf("read %+v", read)
		}
		read.Labels["breed"], read.ManagedFields[0].Manager, read.Spec.Weight = "changed", "changed", 0
	}
}

func TestTheSameObjectUnderAnotherNameIsNoObject(t *testing.T) {
	renamed := strings.Replace(dolly(7, 1), `"name":"dolly"`, `"name":"molly"`, 1)
	store, _ := newServer(t, answering(200, dolly(7, 1)), answering(200, renamed))
	if err := store.Get(t.Context(), "/llamas/default/dolly", storage.GetOptions{}, &farmv1alpha.Llama{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Get(t.Context(), "/llamas/default/molly", storage.GetOptions{}, &farmv1alpha.Llama{}); !storage.IsCorruptObject(err) {
			t.Errorf("got %v", err)
		}
	}
}

func TestCacheEviction(t *testing.T) {
	remembers := &decodedCache[farmv1alpha.Llama, *farmv1alpha.Llama]{}
	text := func(i int) []byte { return []byte(fmt.Sprintf("%d%s", i, strings.Repeat(" ", 1<<20))) }
	has := func(i int) bool { return remembers.copy(text(i), &farmv1alpha.Llama{}) }
	for i := range 20 {
		remembers.remember(text(i), &farmv1alpha.Llama{})
		if !has(i) {
			t.Fatalf("%d is not remembered", i)
		}
		if !has(0) {
			t.Fatalf("what is asked for again and again is forgotten after %d", i)
		}
		if remembers.bytes > rememberedBytes || len(remembers.recent)+len(remembers.older) > 2*rememberedBytes>>20 {
			t.Fatalf("%d bytes, %d and %d texts are remembered", remembers.bytes, len(remembers.recent), len(remembers.older))
		}
	}
	if has(1) {
		t.Error("an object that is not requested any more is remembered for ever")
	}
}
