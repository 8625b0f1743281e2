// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

const (
	// statusAPIInterval is the interval of discovery while the status is not served.
	statusAPIInterval = time.Second
	// statusAPITimeout is how long discovery may take.
	statusAPITimeout = 10 * time.Second
	// noStatusAPI describes what is wrong with a CustomResourceDefinition of Kanister, and what to do.
	noStatusAPI = "The CustomResourceDefinition actionsets." + v1alpha1.GroupName + " has no status subresource, so it is another controller's (Kanister's has none): " +
		"no ActionSet is executed until it is replaced: kubectl apply --server-side --force-conflicts -f manifests/00-crds"
)

// reasonStatusNotServed is the reason of the Warning event on an ActionSet that waits for its status to be served.
const reasonStatusNotServed = "StatusNotServed"

// statusAPI checks whether the API server serves the status of ActionSets as a subresource. If it does not, no run can be recorded, so
// none is executed. It uses discovery when it starts, when a status was not found, and every second while the status is not served.
type statusAPI struct {
	client discovery.DiscoveryInterfaceWithContext
	// rechecks has an element when a status was not found.
	rechecks chan struct{}

	mu      sync.Mutex
	missing bool
	waiting sets.Set[cache.ObjectName]
}

func newStatusAPI(client discovery.DiscoveryInterfaceWithContext) *statusAPI {
	return &statusAPI{client: client, rechecks: make(chan struct{}, 1), waiting: sets.New[cache.ObjectName]()}
}

// run checks until the context ends, and enqueues the waiting keys when the status is served again.
func (a *statusAPI) run(ctx context.Context, enqueue func(...cache.ObjectName)) {
	for ctx.Err() == nil {
		served := a.ask(ctx, enqueue)
		var again <-chan time.Time
		if !served {
			again = time.After(statusAPIInterval)
		}
		select {
		case <-a.rechecks:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// ask reports whether the status is served, so that no further check is needed.
func (a *statusAPI) ask(ctx context.Context, enqueue func(...cache.ObjectName)) (ok bool) {
	requestCtx, cancel := context.WithTimeout(ctx, statusAPITimeout)
	defer cancel()
	list, err := a.client.ServerResourcesForGroupVersionWithContext(requestCtx, v1alpha1.GroupVersion.String())
	if err != nil {
		return false // the manager and the informers report why the API server does not answer
	}
	served := func(name string) bool {
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	}
	missing := served("actionsets") && !served("actionsets/status")
	a.mu.Lock()
	changed := missing != a.missing
	a.missing = missing
	var keys []cache.ObjectName
	if !missing {
		keys = a.waiting.UnsortedList()
		a.waiting.Clear()
	}
	a.mu.Unlock()
	switch {
	case changed && missing:
		klog.FromContext(ctx).Error(nil, noStatusAPI)
	case changed:
		klog.FromContext(ctx).Info("The API server serves the status of ActionSets", "waited", len(keys))
	}
	enqueue(keys...)
	return !missing
}

// recheck requests another check, after a status was not found.
func (a *statusAPI) recheck() {
	select {
	case a.rechecks <- struct{}{}:
	default:
	}
}

// holds reports whether the key has to wait until the status is served. The key is enqueued then.
func (a *statusAPI) holds(key cache.ObjectName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missing {
		a.waiting.Insert(key)
	}
	return a.missing
}

// needsStatus reports whether the next step of an ActionSet writes its status. An ended run does not, nor one whose finalizer is only removed.
func needsStatus(o observed) bool {
	ended := hasFinished(o.set.Status) || foreignEnded(o.set.Status)
	released := o.set.DeletionTimestamp != nil && (o.namespaceTerminating || !hasStarted(o.set.Status))
	return !ended && !released
}

// Ready returns why no ActionSet can be executed; nil if they can.
func (c *Controller) Ready() error {
	c.statusAPI.mu.Lock()
	defer c.statusAPI.mu.Unlock()
	if c.statusAPI.missing {
		return fmt.Errorf("%s", noStatusAPI)
	}
	return nil
}
