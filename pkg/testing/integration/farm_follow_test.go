// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// follow runs informers of Llamas and FarmPods until the test ends.
func (e *farmFault) follow(client versioned.Interface) *followed {
	e.Helper()
	f := &followed{farmFault: e}
	handler := cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.deleted = append(f.deleted, fmt.Sprintf("%T", object))
	}}
	farm := client.FarmV1alpha()
	llamas, pods := farm.Llamas(e.namespace), farm.FarmPods(e.namespace)
	f.llamas = cache.NewSharedIndexInformer(listWatch(llamas.List, llamas.Watch), &farmv1alpha.Llama{}, 0, cache.Indexers{})
	f.pods = cache.NewSharedIndexInformer(listWatch(pods.List, pods.Watch), &farmv1alpha.FarmPod{}, 0, cache.Indexers{})
	for _, informer := range []cache.SharedIndexInformer{f.llamas, f.pods} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			e.Fatal(err)
		}
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.errors = append(f.errors, err.Error())
		}); err != nil {
			e.Fatal(err)
		}
		e.runInformer(informer)
	}
	return f
}

// followed has the informers, the deletions that they saw, and their errors.
type followed struct {
	*farmFault
	llamas, pods cache.SharedIndexInformer

	mu      sync.Mutex
	deleted []string
	errors  []string
}

// sees creates a Llama and a Pod of this name, and waits until both informers have them.
func (f *followed) sees(name string) {
	f.Helper()
	f.createLlama(newLlama(name))
	f.createPod(name, 1)
	f.eventually(func() string {
		for informer, key := range map[cache.SharedIndexInformer]string{f.llamas: f.namespace + "/" + name, f.pods: f.namespace + "/farm-" + name} {
			if _, there, err := informer.GetStore().GetByKey(key); !there || err != nil {
				return fmt.Sprintf("%s is not in the informer's store: %v", key, err)
			}
		}
		return ""
	})
}

// complaints returns the errors of the watches, and the objects that the informers saw deleted.
func (f *followed) complaints() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(f.errors, f.deleted)
}
