// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
)

var watching = map[string]func(*farm){
	"a watch reports what happens after a resourceVersion": func(f *farm) {
		old := f.create("old")
		w := f.watch(storage.ListOptions{ResourceVersion: old.ResourceVersion})
		other := &farm{T: f.T, Subject: f.Subject, ctx: f.ctx, namespace: f.Namespace(f.T)}
		other.create("unseen")
		created := f.create("dolly")
		updated := f.update("dolly", heavier)
		f.remove("dolly")
		w.expect(watch.Added, created)
		w.expect(watch.Modified, updated)
		deleted := w.expect(watch.Deleted, nil)
		if number(deleted.ResourceVersion) <= number(updated.ResourceVersion) {
			f.Errorf("the deletion is of resourceVersion %s, the last update of %s", deleted.ResourceVersion, updated.ResourceVersion)
		}
		deleted.ResourceVersion = updated.ResourceVersion
		if diff := cmp.Diff(updated, deleted); diff != "" {
			f.Errorf("-last state +got:\n%s", diff)
		}
		w.expect(watch.Added, f.create("last"))
	},
	"a watch of one object reports no other": func(f *farm) {
		from := f.current()
		w := f.watchKey(f.ctx, f.key("a"), storage.ListOptions{ResourceVersion: from, Predicate: everything()})
		f.create("ab")
		f.create("b")
		w.expect(watch.Added, f.create("a"))
		f.update("ab", heavier)
		f.remove("a")
		w.expect(watch.Deleted, nil)
		f.remove("b")
		w.expect(watch.Added, f.create("a"))
	},
	"a watch of all namespaces reports each": func(f *farm) {
		w := f.watchKey(f.ctx, "/llamas", storage.ListOptions{ResourceVersion: f.current(), Recursive: true, Predicate: selectedBy("test="+f.namespace, "")})
		other := &farm{T: f.T, Subject: f.Subject, ctx: f.ctx, namespace: f.Namespace(f.T)}
		mark := func(llama *farmv1alpha.Llama) { llama.Labels = map[string]string{"test": f.namespace} }
		w.expect(watch.Added, f.create("a", mark))
		w.expect(watch.Added, other.create("a", mark))
	},
	"an update that changes nothing is not reported": func(f *farm) {
		f.create("dolly")
		w := f.watch(storage.ListOptions{ResourceVersion: f.current()})
		f.update("dolly", func(*farmv1alpha.Llama) {})
		w.expect(watch.Modified, f.update("dolly", heavier))
	},
	"two watches get objects of their own": func(f *farm) {
		from := f.current()
		first, second := f.watch(storage.ListOptions{ResourceVersion: from}), f.watch(storage.ListOptions{ResourceVersion: from})
		created := f.create("dolly", func(llama *farmv1alpha.Llama) { llama.Labels = map[string]string{"a": "1"} })
		first.expect(watch.Added, created).Labels["a"] = "changed"
		second.expect(watch.Added, created)
		if diff := cmp.Diff(created, f.get("dolly")); diff != "" {
			f.Errorf("the stored one has changed: %s", diff)
		}
	},
	"a watch that is stopped ends for its reader": func(f *farm) {
		for name, stop := range map[string]func(watch.Interface, context.CancelFunc){
			"stopped":  func(w watch.Interface, _ context.CancelFunc) { w.Stop() },
			"canceled": func(_ watch.Interface, cancel context.CancelFunc) { cancel() },
		} {
			ctx, cancel := context.WithCancel(f.ctx)
			defer cancel()
			w := f.watchKey(ctx, f.all(), storage.ListOptions{ResourceVersion: f.current(), Recursive: true, Predicate: everything()})
			for i := range 40 { // more than any channel holds
				f.create(fmt.Sprint(name, i))
			}
			stop(w, cancel)
			for deadline := time.After(patience.Limit); ; {
				select {
				case _, open := <-w.ResultChan():
					if open {
						continue
					}
				case <-deadline:
					f.Fatalf("%s: the watch goes on", name)
				}
				break
			}
			w.Stop() // again does no harm
		}
	},
	"a slow watcher misses nothing, and delays no other": func(f *farm) {
		from := f.current()
		slow, fast := f.watch(storage.ListOptions{ResourceVersion: from}), f.watch(storage.ListOptions{ResourceVersion: from})
		created := []*farmv1alpha.Llama{}
		for i := range 150 {
			created = append(created, f.create(fmt.Sprint("llama-", i)))
			fast.expect(watch.Added, created[i])
		}
		for _, want := range created {
			slow.expect(watch.Added, want)
		}
	},
}

var starting = map[string]func(*farm){
	"a watch from no resourceVersion begins with what there is": func(f *farm) {
		a, b := f.create("a"), f.create("b")
		for _, from := range []string{"", "0"} {
			w := f.watch(storage.ListOptions{ResourceVersion: from})
			w.expect(watch.Added, a)
			w.expect(watch.Added, b)
			b = f.update("b", heavier)
			w.expect(watch.Modified, b)
		}
	},
	"initial events end with a bookmark": func(f *farm) {
		for count, options := range []storage.ListOptions{{}, {ResourceVersion: "0"}, {ResourceVersion: f.create("a").ResourceVersion}} {
			options.SendInitialEvents, options.Predicate = ptr.To(true), everything()
			options.Predicate.AllowWatchBookmarks = true
			created := []*farmv1alpha.Llama{f.get("a")}
			for i := range count {
				created = append(created, f.get(fmt.Sprint("b", i)))
			}
			w := f.watch(options)
			for _, llama := range created {
				w.expect(watch.Added, llama)
			}
			bookmark := w.expect(watch.Bookmark, nil)
			if bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || number(bookmark.ResourceVersion) < number(created[count].ResourceVersion) {
				f.Errorf("the bookmark is %+v", bookmark.ObjectMeta)
			}
			w.expect(watch.Added, f.create(fmt.Sprint("b", count)))
		}
	},
	"initial events of nothing are a bookmark": func(f *farm) {
		predicate := everything()
		predicate.AllowWatchBookmarks = true
		w := f.watch(storage.ListOptions{SendInitialEvents: ptr.To(true), Predicate: predicate})
		if bookmark := w.expect(watch.Bookmark, nil); bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || number(bookmark.ResourceVersion) == 0 {
			f.Errorf("the bookmark is %+v", bookmark.ObjectMeta)
		}
		w.expect(watch.Added, f.create("a"))
	},
	"who wants no bookmark gets none": func(f *farm) {
		a := f.create("a")
		w := f.watch(storage.ListOptions{SendInitialEvents: ptr.To(true)})
		w.expect(watch.Added, a)
		w.expect(watch.Modified, f.update("a", heavier))
	},
	"who wants no initial events gets none": func(f *farm) {
		f.create("a")
		for _, predicate := range []storage.SelectionPredicate{everything(), selectedBy("", "size=small")} {
			w := f.watch(storage.ListOptions{SendInitialEvents: ptr.To(false), Predicate: predicate})
			w.expect(watch.Modified, f.update("a", heavier))
		}
	},
	"initial events cannot be of the future": func(f *farm) {
		to := later(f.create("a").ResourceVersion)
		options := storage.ListOptions{ResourceVersion: to, SendInitialEvents: ptr.To(true), Recursive: true, Predicate: everything()}
		w, err := f.Watch(f.ctx, f.all(), options)
		if err == nil {
			err = f.reading(w).failure()
		}
		if !storage.IsTooLargeResourceVersion(err) {
			f.Errorf("got %v", err)
		}
	},
	"what is no resourceVersion is no start": func(f *farm) {
		if _, err := f.Watch(f.ctx, f.all(), storage.ListOptions{ResourceVersion: "yesterday", Recursive: true, Predicate: everything()}); err == nil {
			f.Error("no error")
		}
	},
}

var forgetting = map[string]func(f *farm, forget func()){
	"what is forgotten cannot be read or watched from": func(f *farm, forget func()) {
		old := f.create("a")
		f.create("b")
		options := storage.ListOptions{}
		options.Predicate.Limit = 1
		options.Predicate.Continue = f.mustList(options).Continue
		f.update("a", heavier)
		forget()
		if _, err := f.list(options); !apierrors.IsResourceExpired(err) {
			f.Errorf("the next page: %v", err)
		}
		_, err := f.list(storage.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if !apierrors.IsResourceExpired(err) {
			f.Errorf("the past: %v", err)
		}
		w, err := f.Watch(f.ctx, f.all(), storage.ListOptions{ResourceVersion: old.ResourceVersion, Recursive: true, Predicate: everything()})
		if err == nil {
			err = f.reading(w).failure()
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			f.Errorf("a watch from the past: %v", err)
		}
		f.watch(storage.ListOptions{ResourceVersion: f.current()})
	},
}
