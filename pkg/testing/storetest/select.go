// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func grow(llama *farmv1alpha.Llama)   { llama.Spec.Height = 2 }
func shrink(llama *farmv1alpha.Llama) { llama.Spec.Height = 0.5 }
func breed(llama *farmv1alpha.Llama)  { llama.Labels = map[string]string{"breed": "suri"} }
func mix(llama *farmv1alpha.Llama)    { llama.Labels = nil }

var selecting = map[string]func(*farm){
	"what is selected by a label comes and goes": func(f *farm) {
		f.comesAndGoes(selectedBy("breed=suri", ""), breed, mix)
	},
	"what is selected by a field that only we know comes and goes": func(f *farm) {
		f.comesAndGoes(selectedBy("", "size=big"), grow, shrink)
	},
	"what is selected by both comes and goes": func(f *farm) {
		f.comesAndGoes(selectedBy("breed=suri", "size=big"), func(llama *farmv1alpha.Llama) { breed(llama); grow(llama) }, mix)
	},
	"a watch from the past knows what was selected then": func(f *farm) {
		for _, test := range []struct {
			predicate storage.SelectionPredicate
			in, out   func(*farmv1alpha.Llama)
		}{{selectedBy("breed=suri", ""), breed, mix}, {selectedBy("", "size=big"), grow, shrink}} {
			before := f.create("dolly", test.in)
			f.create("other", test.out)
			from := f.current()
			out := f.update("dolly", test.out)
			f.update("other", heavier)
			w := f.watch(storage.ListOptions{ResourceVersion: from, Predicate: test.predicate})
			w.gone(before, out)
			w.expect(watch.Added, f.update("other", test.in))
			f.remove("dolly")
			f.remove("other")
			if last := w.expect(watch.Deleted, nil); last.Name != "other" {
				f.Errorf("%s was not selected", last.Name)
			}
		}
	},
	"initial events are of what is selected": func(f *farm) {
		f.create("other")
		big := f.create("dolly", func(llama *farmv1alpha.Llama) { breed(llama); grow(llama) })
		for _, predicate := range []storage.SelectionPredicate{selectedBy("breed=suri", ""), selectedBy("", "size=big"), selectedBy("", "metadata.name=dolly")} {
			predicate.AllowWatchBookmarks = true
			w := f.watch(storage.ListOptions{SendInitialEvents: ptr.To(true), Predicate: predicate})
			w.expect(watch.Added, big)
			w.expect(watch.Bookmark, nil)
			f.update("other", heavier)
			big = f.update("dolly", heavier)
			w.expect(watch.Modified, big)
		}
	},
}

// comesAndGoes changes a llama into and out of a selection.
func (f *farm) comesAndGoes(predicate storage.SelectionPredicate, in, out func(*farmv1alpha.Llama)) {
	w := f.watch(storage.ListOptions{ResourceVersion: f.current(), Predicate: predicate})
	f.create("other", out)
	f.create("dolly", out)
	f.update("dolly", heavier)
	w.expect(watch.Added, f.update("dolly", in))
	last := f.update("dolly", heavier)
	w.expect(watch.Modified, last)
	w.gone(last, f.update("dolly", out))
	f.remove("other")
	w.expect(watch.Added, f.update("dolly", in))
	f.remove("dolly")
	w.expect(watch.Deleted, nil)
	f.create("dolly", out)
	f.remove("dolly")
	w.expect(watch.Added, f.create("last", in))
}

// gone expects that a llama is reported as deleted because it was changed: as it was before, at the resourceVersion of the change.
func (w *watcher) gone(before, after *farmv1alpha.Llama) {
	w.f.Helper()
	got := w.expect(watch.Deleted, nil)
	want := before.DeepCopy()
	want.ResourceVersion = after.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		w.f.Errorf("-want +got:\n%s", diff)
	}
}
