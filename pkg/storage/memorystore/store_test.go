// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/storetest"
)

func newLlama() runtime.Object { return &farmv1alpha.Llama{} }

func subject() storetest.Subject {
	namespaces := atomic.Int32{}
	return storetest.Subject{
		Interface: New("/llamas", newLlama),
		Namespace: func(testing.TB) string { return fmt.Sprint("namespace-", namespaces.Add(1)) },
	}
}

func TestMemoryIsAStorage(t *testing.T) { storetest.Run(t, subject()) }

func TestMemoryThatForgetsIsAStorage(t *testing.T) {
	subject := subject()
	storetest.RunForgetting(t, subject, func(t testing.TB) { overwrite(t, subject, historyLength) })
}

// overwrite makes the storage forget by writing that often.
func overwrite(t testing.TB, store storage.Interface, times int) {
	t.Helper()
	for i := range times {
		if err := store.Create(context.Background(), fmt.Sprint("/llamas/others/", i), newLlama(), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSlowWatchExpires(t *testing.T) {
	store := New("/llamas", newLlama)
	w, err := store.Watch(t.Context(), "/llamas", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, store, 1)
	<-w.ResultChan() // it follows
	for i := range 2 * historyLength {
		if err := store.GuaranteedUpdate(t.Context(), "/llamas/others/0", newLlama(), false, nil, weighing(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	last := watch.Event{}
	for event := range w.ResultChan() {
		last = event
	}
	if last.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(last.Object)) {
		t.Errorf("the last event is %s %+v", last.Type, last.Object)
	}
}

func weighing(weight int) storage.UpdateFunc {
	return storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		object.(*farmv1alpha.Llama).Spec.Weight = float64(weight + 1)
		return object, nil
	})
}

func TestWatchBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New("/llamas", newLlama)
		predicate := storage.Everything
		predicate.AllowWatchBookmarks = true
		w, err := store.Watch(t.Context(), "/llamas/default", storage.ListOptions{Recursive: true, Predicate: predicate})
		if err != nil {
			t.Fatal(err)
		}
		for minute := 1; minute <= 3; minute++ {
			if err := store.Create(t.Context(), fmt.Sprint("/llamas/others/", minute), newLlama(), nil, 0); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			event := <-w.ResultChan()
			current, err := store.GetCurrentResourceVersion(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited != time.Minute || event.Type != watch.Bookmark ||
				event.Object.(*farmv1alpha.Llama).ResourceVersion != fmt.Sprint(current) {
				t.Errorf("after %s: %s %+v, the time is %d", waited, event.Type, event.Object, current)
			}
		}
		w.Stop()
		<-w.ResultChan()
	})
}

func TestWatchBeforeProcessStartExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := New("/llamas", newLlama)
		overwrite(t, last, 1000)
		before, err := last.GetCurrentResourceVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		next := New("/llamas", newLlama)
		if after, err := next.GetCurrentResourceVersion(t.Context()); err != nil || after <= before {
			t.Errorf("the time was %d, and is %d, %v", before, after, err)
		}
		w, err := next.Watch(t.Context(), "/llamas", storage.ListOptions{ResourceVersion: fmt.Sprint(before), Recursive: true, Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		if event := <-w.ResultChan(); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("a watch from before: %s %+v", event.Type, event.Object)
		}
	})
}
