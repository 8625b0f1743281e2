// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// chaosHistory is what the API server tells of parents and children, from the first on.
type chaosHistory struct {
	mu   sync.Mutex
	made []madeChild
	// finalizer is the version in which a parent first had ours.
	finalizer map[types.UID]string
	gone      map[types.UID]bool
	// overtaken are the parents that were gone before any finalizer could hold them.
	overtaken map[types.UID]bool
}

// madeChild is a child as it was created.
type madeChild struct {
	name, version string
	owner         types.UID // "" if nobody's
}

// recordChaos watches until the test ends.
func recordChaos(e *engineEnv) *chaosHistory {
	e.Helper()
	h := &chaosHistory{finalizer: map[types.UID]string{}, gone: map[types.UID]bool{}, overtaken: map[types.UID]bool{}}
	for _, kind := range []string{widget, "ConfigMap"} {
		objects := e.at(kind)
		all, err := objects.List(e.Context(), metav1.ListOptions{})
		if err != nil {
			e.Fatal(err)
		}
		watcher, err := watchtools.NewRetryWatcherWithContext(e.Context(), all.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return objects.Watch(ctx, options)
			},
		})
		if err != nil {
			e.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for event := range watcher.ResultChan() {
				if o, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
					h.see(o, event.Type)
				}
			}
		}()
		e.Cleanup(func() {
			watcher.Stop()
			<-ended
		})
	}
	return h
}

func (h *chaosHistory) see(o *unstructured.Unstructured, event watch.EventType) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case o.GetKind() == "Widget":
		if h.finalizer[o.GetUID()] == "" && len(o.GetFinalizers()) > 0 {
			h.finalizer[o.GetUID()] = o.GetResourceVersion()
		}
		if event == watch.Deleted {
			h.gone[o.GetUID()] = true
			// The API server deletes what it has read without finalizers, also when one is added before it does. What is deleted
			// through a finalizer has had a deletionTimestamp before.
			h.overtaken[o.GetUID()] = o.GetDeletionTimestamp() == nil
		}
	case isChaosChild(o) && event == watch.Added:
		child := madeChild{name: o.GetName(), version: o.GetResourceVersion()}
		if owner := metav1.GetControllerOf(o); owner != nil {
			child.owner = owner.UID
		}
		h.made = append(h.made, child)
	}
}

func isChaosChild(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), "p") }

// knowsGone tells whether so many parents are gone.
func (h *chaosHistory) knowsGone() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.gone)
}

// verify tells what should never have happened. wanted is how often there was a reason for a child of each name to be made.
func (h *chaosHistory) verify(hook *chaosHook, wanted map[string]int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var problems []string
	made := map[string]int{}
	for _, child := range h.made {
		made[child.name]++
		since := h.finalizer[child.owner]
		if order, err := resourceversion.CompareResourceVersion(since, child.version); since == "" || err != nil || order > 0 {
			problems = append(problems, fmt.Sprintf("%s was made in version %s, and its owner %q had the finalizer from %q on", child.name, child.version, child.owner, since))
		}
	}
	for child, times := range made {
		if times > wanted[child] {
			problems = append(problems, fmt.Sprintf("%s was made %d times, and wanted %d times", child, times, wanted[child]))
		}
	}
	for parent := range h.gone {
		called, finalized := hook.seen(parent)
		switch {
		case h.finalizer[parent] != "" && !finalized && !h.overtaken[parent]:
			problems = append(problems, fmt.Sprintf("parent %s is gone, and the hook has not said that it has finished", parent))
		case h.finalizer[parent] == "" && called:
			problems = append(problems, fmt.Sprintf("the hook was called for parent %s, which never had a finalizer", parent))
		}
	}
	slices.Sort(problems)
	return problems
}
