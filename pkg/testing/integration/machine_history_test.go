// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// byHand is an annotation that users change who move a switch down themselves.
const byHand = "by-hand"

// flipHistory is what a watch that nothing disturbs tells of the switches of the test's namespace that were moved down. The API
// server says when, in whole seconds, cut off: of two writes that are as far from each other as they should be, it says so.
type flipHistory struct {
	mu       sync.Mutex
	switches map[types.UID]*v1alpha1.Switch
	last     map[types.UID]time.Time // by Machine
	delay    time.Duration
	interval time.Duration
	count    int
	problems []string
}

// recordFlips watches until the test ends, and fails it where a Machine does not keep this delay or this interval.
func recordFlips(e *env, delay, interval time.Duration) *flipHistory {
	e.Helper()
	h := &flipHistory{switches: map[types.UID]*v1alpha1.Switch{}, last: map[types.UID]time.Time{}, delay: delay, interval: interval}
	ctx, cancel := context.WithCancel(context.Background())
	client := e.client.UselessV1alpha1().Switches(e.namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for i := range list.Items {
		h.see(&list.Items[i])
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	})
	if err != nil {
		e.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range watcher.ResultChan() {
			if sw, ok := event.Object.(*v1alpha1.Switch); ok && event.Type != watch.Bookmark {
				h.see(sw)
			}
		}
	})
	e.Cleanup(func() {
		cancel()
		running.Wait()
		for _, problem := range h.problems {
			e.Error(problem)
		}
	})
	return h
}

// see the next version of a Switch.
func (h *flipHistory) see(sw *v1alpha1.Switch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.switches[sw.UID]
	h.switches[sw.UID] = sw
	if before == nil || before.Spec.Position == v1alpha1.PositionDown || sw.Spec.Position != v1alpha1.PositionDown ||
		before.Annotations[byHand] != sw.Annotations[byHand] {
		return
	}
	at, owner := writtenAt(sw), metav1.GetControllerOf(sw)
	if owner == nil || before.Status.SeenAt == nil {
		h.problems = append(h.problems, fmt.Sprintf("Switch %s is moved down, owned by %v and seen up at %v", sw.Name, owner, before.Status.SeenAt))
		return
	}
	h.count++
	if end := at.Add(time.Second); !end.After(before.Status.SeenAt.Add(h.delay)) {
		h.problems = append(h.problems, fmt.Sprintf("Switch %s is moved down at %s, and was seen up at %s", sw.Name, at, before.Status.SeenAt))
	}
	if last, ok := h.last[owner.UID]; ok && at.Sub(last) < h.interval {
		h.problems = append(h.problems, fmt.Sprintf("Machine %s moves Switch %s down at %s, and did another at %s", owner.Name, sw.Name, at, last))
	}
	h.last[owner.UID] = at
}

// flips is how often a Machine has moved a switch down so far.
func (h *flipHistory) flips() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// writtenAt is when the object, its status apart, was last written.
func writtenAt(object metav1.Object) (at time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}
