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

// byHand is an annotation that the test changes when it moves a switch down as a user.
const byHand = "by-hand"

// flipHistory records with a watch when the controller has moved switches of the test's namespace down. The API server gives the times of
// writes in whole seconds, rounded down, which keeps the distance of two writes that are whole seconds apart.
type flipHistory struct {
	mu       sync.Mutex
	switches map[types.UID]*v1alpha1.Switch
	last     map[types.UID]time.Time // by Machine
	delay    time.Duration
	interval time.Duration
	count    int
	problems []string
}

// recordFlips watches the switches until the test ends. It fails the test if a Machine does not keep this delay or this interval.
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

// see handles the next version of a Switch.
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
		h.problems = append(h.problems, fmt.Sprintf("Switch %s was moved down, but it is owned by %v and was seen up at %v", sw.Name, owner, before.Status.SeenAt))
		return
	}
	h.count++
	if end := at.Add(time.Second); !end.After(before.Status.SeenAt.Add(h.delay)) {
		h.problems = append(h.problems, fmt.Sprintf("Switch %s was moved down at %s, too soon after it was seen up at %s", sw.Name, at, before.Status.SeenAt))
	}
	if last, ok := h.last[owner.UID]; ok && at.Sub(last) < h.interval {
		h.problems = append(h.problems, fmt.Sprintf("Machine %s moved Switch %s down at %s, too soon after another at %s", owner.Name, sw.Name, at, last))
	}
	h.last[owner.UID] = at
}

// flips returns how often Machines have moved a switch down.
func (h *flipHistory) flips() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// writtenAt returns when the object, except its status, was last written.
func writtenAt(object metav1.Object) (at time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}
