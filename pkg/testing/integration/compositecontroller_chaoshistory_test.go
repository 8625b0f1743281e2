// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// chaosHistory records what the API server reports about parents and children from the start.
type chaosHistory struct {
	mu      sync.Mutex
	created []createdChild
	known   map[types.UID]bool // children that are in created
	// finalizer is the resourceVersion in which each parent first had a finalizer of ours, by the resource that finalizer is named after.
	finalizer map[string]map[types.UID]string
	gone      map[types.UID]bool
	// overtaken are the parents that were deleted before a finalizer could hold them.
	overtaken map[types.UID]bool
}

// createdChild is a child or an attachment as it was created, and by which resource.
type createdChild struct {
	name, version, by string
	owner             types.UID // empty if it has no controller
}

// The parts of finalizers that name who set them.
const byComposite, byDecorator = "compositecontroller", "decoratorcontroller"

// recordChaos watches parents, children and attachments, which are Parts, until the test ends.
func recordChaos(e *engineEnv, part string) *chaosHistory {
	e.Helper()
	h := &chaosHistory{
		known:     map[types.UID]bool{},
		finalizer: map[string]map[types.UID]string{byComposite: {}, byDecorator: {}},
		gone:      map[types.UID]bool{},
		overtaken: map[types.UID]bool{},
	}
	for _, kind := range []string{widget, "ConfigMap", part} {
		objects := e.at(kind)
		first, err := objects.List(e.Context(), metav1.ListOptions{})
		if err != nil {
			e.Fatal(err)
		}
		ctx, stop := context.WithCancel(e.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.follow(ctx, objects, first)
		}()
		e.Cleanup(func() {
			stop()
			<-ended
		})
	}
	return h
}

// follow sees all changes after a list. Where a type was not served for a while, it lists once more, and misses what came and went meanwhile.
func (h *chaosHistory) follow(ctx context.Context, objects dynamic.ResourceInterface, listed *unstructured.UnstructuredList) {
	for {
		for i := range listed.Items {
			h.see(&listed.Items[i], watch.Added)
		}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, listed.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return objects.Watch(ctx, options)
			},
		})
		if err != nil {
			return // the test has ended
		}
		for event := range watcher.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
				h.see(o, event.Type)
			}
		}
		err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			var err error
			listed, err = objects.List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		if err != nil {
			return
		}
	}
}

func (h *chaosHistory) see(o *unstructured.Unstructured, event watch.EventType) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case o.GetKind() == "Widget":
		for by, since := range h.finalizer {
			if since[o.GetUID()] == "" && slices.ContainsFunc(o.GetFinalizers(), func(f string) bool { return strings.Contains(f, by) }) {
				since[o.GetUID()] = o.GetResourceVersion()
			}
		}
		if event == watch.Deleted {
			h.gone[o.GetUID()] = true
			// The API server deletes an object that it has read without finalizers, even if one is added in between. An object
			// that a finalizer has held has a deletionTimestamp.
			h.overtaken[o.GetUID()] = o.GetDeletionTimestamp() == nil
		}
	case isChaosChild(o) && event == watch.Added && !h.known[o.GetUID()]:
		h.known[o.GetUID()] = true
		child := createdChild{name: o.GetName(), version: o.GetResourceVersion(), by: byComposite}
		if o.GetKind() == "Part" {
			child.by = byDecorator
		}
		if owner := metav1.GetControllerOf(o); owner != nil {
			child.owner = owner.UID
		}
		h.created = append(h.created, child)
	}
}

func isChaosChild(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), "p") }

// countGone returns how many parents are gone.
func (h *chaosHistory) countGone() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.gone)
}

// verify returns what should not have happened. wanted is how often there was a reason to create a child of each name.
func (h *chaosHistory) verify(hook *chaosHook, wanted map[string]int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var problems []string
	created := map[string]int{}
	for _, child := range h.created {
		created[child.name]++
		since := h.finalizer[child.by][child.owner]
		if order, err := resourceversion.CompareResourceVersion(since, child.version); since == "" || err != nil || order > 0 {
			problems = append(problems, fmt.Sprintf("%s was created in version %s, but its owner %q had the finalizer since %q",
				child.name, child.version, child.owner, since))
		}
	}
	for child, times := range created {
		if times > wanted[child] {
			problems = append(problems, fmt.Sprintf("%s was created %d times, want %d at most", child, times, wanted[child]))
		}
	}
	for parent := range h.gone {
		for by, since := range h.finalizer {
			synced, finalized := hook.seen(by, parent)
			switch {
			case since[parent] != "" && !finalized && !h.overtaken[parent]:
				problems = append(problems, fmt.Sprintf("parent %s is gone, but the finalize hook of the %s has not finished", parent, by))
			case since[parent] == "" && synced:
				problems = append(problems, fmt.Sprintf("the hook of the %s was called for parent %s, which never had its finalizer", by, parent))
			}
		}
	}
	slices.Sort(problems)
	return problems
}
