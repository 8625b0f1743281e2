// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// States of an object that every kind has. The others are the reasons why it is not Ready.
const (
	// stateNew: its status has no Ready condition yet.
	stateNew = "New"
	// stateReady: its Ready condition is True, for a reason that is no state of its own.
	stateReady = "Ready"
	// stateConflict: its Conflict condition is True, whatever it is otherwise.
	stateConflict = "Conflict"
	// stateOther: it is not Ready, for a reason that is no state of its own.
	stateOther = "Other"
)

var (
	objectsDesc = metrics.NewDesc("millwright_objects",
		"Number of objects by kind and state: New (no status yet), Ready, Conflict, the reason of the Ready condition, or Other (any other reason). "+
			"Counted at each scrape in the cache of this process, that of a standby too: take max by (kind, state) over the replicas, not sum.",
		[]string{"kind", "state"}, nil, metrics.ALPHA, "")
	unreadyDesc = metrics.NewDesc("millwright_objects_longest_unready_seconds",
		"For how long the object of the kind and state has not been Ready, or has been in conflict, that has been so for the longest time. "+
			"Absent where there is none. Take max by (kind, state) over the replicas.",
		[]string{"kind", "state"}, nil, metrics.ALPHA, "")

	objects = &objectCollector{sources: map[string]*objectSource{}}
)

func init() {
	legacyregistry.CustomMustRegister(objects)
}

// CountObjects makes each scrape report how many objects of the kind the informer has in each state, until the context ends. The
// reasons are those of the Ready condition that are states of their own: a closed set, so that the reasons of webhooks and nodes
// make no time series.
//
// Every process counts, whether it leads or not. Caches are warm in all of them, the number stays known while no process leads, which
// is when it matters most, and a replica whose cache hangs is visible. Nothing is counted before the cache is filled. If several managers
// run in one process, as in tests, the last one reports.
func CountObjects[T metav1.Object](ctx context.Context, informer objectCache, kind string, conditions func(T) []metav1.Condition, reasons ...string) {
	source := &objectSource{
		states: append([]string{stateNew, stateReady, stateConflict, stateOther}, reasons...),
		count: func(now time.Time) (map[string]tally, bool) {
			if !informer.HasSynced() {
				return nil, false
			}
			return tallies(informer.GetStore().List(), conditions, reasons, now), true
		},
	}
	objects.set(kind, source)
	context.AfterFunc(ctx, func() { objects.unset(kind, source) })
}

// objectCache is the part of an informer that is read.
type objectCache interface {
	HasSynced() bool
	GetStore() cache.Store
}

// tally of the objects in one state.
type tally struct {
	objects int
	// isUnready reports whether any of them is not Ready, or in conflict, and unready for how long the first of those.
	isUnready bool
	unready   time.Duration
}

func tallies[T metav1.Object](listed []any, conditions func(T) []metav1.Condition, reasons []string, now time.Time) map[string]tally {
	counted := map[string]tally{}
	for _, object := range listed {
		object := object.(T)
		state, since := stateOf(conditions(object), reasons)
		t := counted[state]
		t.objects++
		if since != nil {
			if since.IsZero() {
				*since = object.GetCreationTimestamp()
			}
			t.isUnready, t.unready = true, max(t.unready, now.Sub(since.Time))
		}
		counted[state] = t
	}
	return counted
}

// stateOf returns the state of an object with these conditions, and since when it is not Ready, or in conflict: nil if it is Ready, and zero for its creation.
func stateOf(conditions []metav1.Condition, reasons []string) (state string, unready *metav1.Time) {
	if conflict := meta.FindStatusCondition(conditions, "Conflict"); conflict != nil && conflict.Status == metav1.ConditionTrue {
		return stateConflict, conflict.LastTransitionTime.DeepCopy()
	}
	ready := meta.FindStatusCondition(conditions, "Ready")
	if ready == nil {
		return stateNew, &metav1.Time{}
	}
	isReady := ready.Status == metav1.ConditionTrue
	switch {
	case slices.Contains(reasons, ready.Reason):
		state = ready.Reason
	case isReady:
		state = stateReady
	default:
		state = stateOther
	}
	if isReady {
		return state, nil
	}
	return state, ready.LastTransitionTime.DeepCopy()
}

// objectSource counts the objects of one kind; not if they are not known yet.
type objectSource struct {
	states []string
	count  func(now time.Time) (map[string]tally, bool)
}

// objectCollector asks its sources at each scrape. It is registered once in a process; the sources come and go.
type objectCollector struct {
	metrics.BaseStableCollector

	mu      sync.Mutex
	sources map[string]*objectSource
}

func (c *objectCollector) set(kind string, source *objectSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[kind] = source
}

func (c *objectCollector) unset(kind string, source *objectSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[kind] == source {
		delete(c.sources, kind)
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (c *objectCollector) DescribeWithStability(descs chan<- *metrics.Desc) {
	descs <- objectsDesc
	descs <- unreadyDesc
}

// CollectWithStability implements metrics.StableCollector.
func (c *objectCollector) CollectWithStability(collected chan<- metrics.Metric) {
	c.mu.Lock()
	sources := maps.Clone(c.sources)
	c.mu.Unlock()
	now := time.Now()
	for kind, source := range sources {
		counted, ok := source.count(now)
		if !ok {
			continue
		}
		for _, state := range source.states {
			t := counted[state]
			collected <- metrics.NewLazyConstMetric(objectsDesc, metrics.GaugeValue, float64(t.objects), kind, state)
			if t.isUnready {
				collected <- metrics.NewLazyConstMetric(unreadyDesc, metrics.GaugeValue, t.unready.Seconds(), kind, state)
			}
		}
	}
}
