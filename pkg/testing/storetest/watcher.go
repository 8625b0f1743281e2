// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
)

// watcher reads a watch.
type watcher struct {
	watch.Interface
	f *farm
	// bookmarks may come at any time.
	bookmarks bool
}

// watch watches the namespace until the test ends.
func (f *farm) watch(options storage.ListOptions) *watcher {
	f.Helper()
	options.Recursive = true
	if options.Predicate.GetAttrs == nil {
		options.Predicate = everything()
	}
	return f.watchKey(f.ctx, f.all(), options)
}

func (f *farm) watchKey(ctx context.Context, key string, options storage.ListOptions) *watcher {
	f.Helper()
	w, err := f.Watch(ctx, key, options)
	if err != nil {
		f.Fatalf("watching: %v", err)
	}
	reading := f.reading(w)
	reading.bookmarks = options.Predicate.AllowWatchBookmarks
	return reading
}

func (f *farm) reading(w watch.Interface) *watcher {
	f.Cleanup(w.Stop)
	return &watcher{Interface: w, f: f}
}

// expect waits for the next event, and returns its object. Of a deletion only the type is compared.
func (w *watcher) expect(kind watch.EventType, want *farmv1alpha.Llama) *farmv1alpha.Llama {
	w.f.Helper()
	event := w.next()
	for w.bookmarks && event.Type == watch.Bookmark && kind != watch.Bookmark {
		event = w.next()
	}
	object, ok := event.Object.(*farmv1alpha.Llama)
	if event.Type != kind || !ok {
		w.f.Fatalf("got %s %+v, want %s %+v", event.Type, event.Object, kind, want)
	}
	if want != nil {
		if diff := cmp.Diff(want, object); diff != "" {
			w.f.Fatalf("%s: -want +got:\n%s", kind, diff)
		}
	}
	return object
}

func (w *watcher) next() watch.Event {
	w.f.Helper()
	select {
	case event, open := <-w.ResultChan():
		if !open {
			w.f.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience.Limit):
		w.f.Fatal("nothing happens")
	}
	panic("not reached")
}

// failure waits for the error of a watch that cannot go on, and for its end.
func (w *watcher) failure() error {
	w.f.Helper()
	event := w.next()
	if event.Type != watch.Error {
		w.f.Fatalf("got %s %+v instead of an error", event.Type, event.Object)
	}
	select {
	case event, open := <-w.ResultChan():
		if open {
			w.f.Errorf("%s %+v after an error", event.Type, event.Object)
		}
	case <-time.After(patience.Limit):
		w.f.Error("the watch goes on after an error")
	}
	return apierrors.FromObject(event.Object)
}
