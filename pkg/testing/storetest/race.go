// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

var racing = map[string]func(*farm){
	"of several who create the same, one does": func(f *farm) {
		var created atomic.Int32
		parallel(8, func(int) {
			err := f.Create(f.ctx, f.key("dolly"), f.llama("dolly"), &farmv1alpha.Llama{}, 0)
			if err == nil {
				created.Add(1)
			} else if !storage.IsExist(err) {
				f.Error(err)
			}
		})
		if created.Load() != 1 {
			f.Errorf("%d have created it", created.Load())
		}
	},
	"of several who change the same, each does": func(f *farm) {
		old := f.create("dolly", func(llama *farmv1alpha.Llama) { llama.Spec.Weight = 0 })
		parallel(4, func(i int) {
			for range 5 {
				var remembered runtime.Object
				if i%2 == 0 {
					remembered = old.DeepCopy()
				}
				if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, nil, changing(heavier), remembered); err != nil {
					f.Error(err)
				}
			}
		})
		if weight := f.get("dolly").Spec.Weight; weight != 20 {
			f.Errorf("after 20 changes by 1 it is %v", weight)
		}
	},
	"of several who make or change the same, each does": func(f *farm) {
		parallel(4, func(int) {
			update := storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
				llama := object.(*farmv1alpha.Llama)
				if llama.Name == "" {
					llama = f.llama("dolly")
					llama.Spec.Weight = 0
				}
				heavier(llama)
				return llama, nil
			})
			if err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, true, nil, update, nil); err != nil {
				f.Error(err)
			}
		})
		if weight := f.get("dolly").Spec.Weight; weight != 4 {
			f.Errorf("after 4 changes by 1 it is %v", weight)
		}
	},
	"who deletes what others change deletes it once": func(f *farm) {
		f.create("dolly")
		var deleted atomic.Int32
		parallel(6, func(i int) {
			if i%2 == 0 {
				err := f.GuaranteedUpdate(f.ctx, f.key("dolly"), &farmv1alpha.Llama{}, false, nil, changing(heavier), nil)
				if err != nil && !storage.IsNotFound(err) {
					f.Error(err)
				}
				return
			}
			if err := f.delete("dolly", nil, storage.ValidateAllObjectFunc, nil); err == nil {
				deleted.Add(1)
			} else if !storage.IsNotFound(err) {
				f.Error(err)
			}
		})
		if deleted.Load() != 1 {
			f.Errorf("it was deleted %d times", deleted.Load())
		}
	},
	"who lists and watches on knows what there is": func(f *farm) {
		ctx, stop := context.WithCancel(f.ctx)
		defer stop()
		var writing sync.WaitGroup
		for writer := range 3 {
			writing.Go(func() { f.scribble(ctx, writer) })
		}
		for range 5 {
			list := f.mustList(storage.ListOptions{})
			w := f.watch(storage.ListOptions{ResourceVersion: list.ResourceVersion})
			known := map[string]farmv1alpha.Llama{}
			for _, llama := range list.Items {
				known[llama.Name] = llama
			}
			for position := number(list.ResourceVersion); len(w.ResultChan()) != 0 || position < number(list.ResourceVersion)+20; {
				position = w.follow(known, position)
			}
		}
		stop()
		writing.Wait()
	},
}

// parallel calls f several times concurrently, and waits.
func parallel(times int, call func(i int)) {
	var calls sync.WaitGroup
	for i := range times {
		calls.Go(func() { call(i) })
	}
	calls.Wait()
}

// scribble writes at random until the context ends.
func (f *farm) scribble(ctx context.Context, seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	for ctx.Err() == nil {
		name := fmt.Sprint("llama-", random.IntN(5))
		if random.IntN(3) == 0 {
			f.Delete(ctx, f.key(name), &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			continue
		}
		update := storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			llama := object.(*farmv1alpha.Llama)
			if llama.Name == "" {
				return f.llama(name), nil
			}
			heavier(llama)
			return llama, nil
		})
		f.GuaranteedUpdate(ctx, f.key(name), &farmv1alpha.Llama{}, true, nil, update, nil)
	}
}

// follow takes the next event into what is known, in which it has to fit, and returns its resourceVersion.
func (w *watcher) follow(known map[string]farmv1alpha.Llama, position uint64) uint64 {
	w.f.Helper()
	event := w.next()
	llama, ok := event.Object.(*farmv1alpha.Llama)
	if !ok {
		w.f.Fatalf("got %s %+v", event.Type, event.Object)
	}
	if number(llama.ResourceVersion) <= position {
		w.f.Fatalf("%s of %s after %d", event.Type, llama.ResourceVersion, position)
	}
	before, there := known[llama.Name]
	if there != (event.Type != watch.Added) {
		w.f.Fatalf("%s of %s, which was there: %v", event.Type, llama.Name, there)
	}
	if event.Type == watch.Deleted {
		delete(known, llama.Name)
		before.ResourceVersion = llama.ResourceVersion
		if diff := cmp.Diff(before, *llama); diff != "" {
			w.f.Fatalf("-last state +deleted:\n%s", diff)
		}
	} else {
		known[llama.Name] = *llama
	}
	return number(llama.ResourceVersion)
}
