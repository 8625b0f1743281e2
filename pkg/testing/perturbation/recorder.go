// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// recorder records all changes of some resources of a namespace, as the API server reports them to an undisturbed watch.
type recorder struct {
	user      *User
	resources []schema.GroupVersionResource
	watchers  []watch.Interface
	wg        sync.WaitGroup

	mu      sync.Mutex
	changes []Change
	known   map[string]bool // the versions of all objects that a list or a watch has returned
}

func startRecorder(ctx context.Context, user *User, resources []schema.GroupVersionResource) (*recorder, error) {
	r := &recorder{user: user, resources: resources, known: map[string]bool{}}
	for _, resource := range resources {
		list, err := user.List(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return user.Objects(resource).Watch(ctx, user.only(resource, options))
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			r.know(&list.Items[i])
		}
		r.watchers = append(r.watchers, watcher)
		r.wg.Go(func() { r.record(resource, watcher) })
	}
	return r, nil
}

func (r *recorder) record(resource schema.GroupVersionResource, watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		r.know(object)
		r.mu.Lock()
		r.changes = append(r.changes, Change{Resource: resource, Deleted: event.Type == watch.Deleted, Object: object})
		r.mu.Unlock()
	}
}

func (r *recorder) know(object *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[object.GetResourceVersion()] = true
}

// stop waits up to five seconds for the watch to report the newest versions, and returns the history in the order of versions.
func (r *recorder) stop() []Change {
	deadline := time.Now().Add(5 * time.Second)
	for _, resource := range r.resources {
		list, err := r.user.List(context.Background(), resource)
		for err == nil && !r.hasAll(list) && time.Now().Before(deadline) {
			time.Sleep(pollInterval)
		}
	}
	for _, watcher := range r.watchers {
		watcher.Stop()
	}
	r.wg.Wait()
	r.watchers = nil
	slices.SortStableFunc(r.changes, func(a, b Change) int {
		order, err := resourceversion.CompareResourceVersion(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
		if err != nil {
			return cmp.Compare(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
		}
		return order
	})
	return r.changes
}

// hasAll reports whether the newest version of every listed object is known.
func (r *recorder) hasAll(list *unstructured.UnstructuredList) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		if !r.known[list.Items[i].GetResourceVersion()] {
			return false
		}
	}
	return true
}
