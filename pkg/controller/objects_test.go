// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// filledCache is an informer that has these objects, and says whether they are all.
type filledCache struct {
	cache.Store
	synced bool
}

func (c *filledCache) HasSynced() bool       { return c.synced }
func (c *filledCache) GetStore() cache.Store { return c.Store }

func cacheOf(t testing.TB, containers ...*v1alpha1.ImmortalContainer) *filledCache {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, container := range containers {
		if err := store.Add(container); err != nil {
			t.Fatal(err)
		}
	}
	return &filledCache{store, true}
}

// containerWith returns one that was created long ago, with conditions that have changed the given number of seconds ago.
func containerWith(name string, ago int, conditions ...metav1.Condition) *v1alpha1.ImmortalContainer {
	now := time.Now()
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-time.Duration(ago) * time.Second))
	}
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Status:     v1alpha1.ImmortalContainerStatus{Conditions: conditions},
	}
}

func saying(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
}

func conditionsOf(container *v1alpha1.ImmortalContainer) []metav1.Condition {
	return container.Status.Conditions
}

// scrapedStates returns what a scrape has of the kind in a metric, by state.
func scrapedStates(t *testing.T, metric, kind string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]float64{}
	for _, family := range families {
		for _, metrics := range family.GetMetric() {
			if labels := metrics.GetLabel(); family.GetName() == metric && labels[0].GetValue() == kind {
				states[labels[1].GetValue()] = metrics.GetGauge().GetValue()
			}
		}
	}
	return states
}

func TestObjectsByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		CountObjects(t.Context(), cacheOf(t,
			containerWith("ready", 50, saying("Ready", "True", "PodReady")),
			containerWith("ready-too", 60, saying("Ready", "True", "PodReady"), saying("Conflict", "False", "Resolved")),
			containerWith("ready-in-part", 500, saying("Ready", "True", "Suspended")),
			containerWith("waiting", 7, saying("Ready", "False", "BackingOff")),
			containerWith("waiting-longer", 70, saying("Ready", "False", "BackingOff")),
			containerWith("odd", 8, saying("Ready", "False", "SomeWebhookSays")),
			containerWith("undecided", 9, saying("Ready", "Unknown", "BackingOff"), saying("Progressing", "True", "Creating")),
			containerWith("untouched", 0),
			containerWith("in-the-way", 20, saying("Conflict", "True", "ErrResourceExists"), saying("Ready", "True", "PodReady")),
		), "A", conditionsOf, "BackingOff", "Suspended")
		want := map[string]float64{"Ready": 2, "BackingOff": 3, "Suspended": 1, "Other": 1, "New": 1, "Conflict": 1}
		if diff := cmp.Diff(want, scrapedStates(t, "millwright_objects", "A")); diff != "" {
			t.Errorf("objects by state (-want +got):\n%s", diff)
		}
		want = map[string]float64{"BackingOff": 70, "Other": 8, "New": 3600, "Conflict": 20}
		if diff := cmp.Diff(want, scrapedStates(t, "millwright_objects_longest_unready_seconds", "A")); diff != "" {
			t.Errorf("seconds not Ready (-want +got):\n%s", diff)
		}
	})
}

func TestNothingIsCountedInACacheThatIsNotFilled(t *testing.T) {
	half := cacheOf(t, containerWith("ready", 0, saying("Ready", "True", "PodReady")))
	half.synced = false
	CountObjects(t.Context(), half, "B", conditionsOf)
	if got := scrapedStates(t, "millwright_objects", "B"); len(got) > 0 {
		t.Errorf("counted %v in a cache that is being filled", got)
	}
	half.synced = true
	if got := scrapedStates(t, "millwright_objects", "B")["Ready"]; got != 1 {
		t.Errorf("counted %v in a cache that is filled, want 1", got)
	}
}

func TestEndedControllerReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		CountObjects(first, cacheOf(t, containerWith("a", 0), containerWith("b", 0)), "C", conditionsOf)
		CountObjects(second, cacheOf(t, containerWith("a", 0)), "C", conditionsOf)
		endFirst()
		synctest.Wait()
		if got := scrapedStates(t, "millwright_objects", "C")["New"]; got != 1 {
			t.Errorf("the second in the same process counts %v objects, want its own", got)
		}
		endSecond()
		synctest.Wait()
		if got := scrapedStates(t, "millwright_objects", "C"); len(got) > 0 {
			t.Errorf("counted %v after both have ended", got)
		}
	})
}

func BenchmarkScrapeOfTenThousandObjects(b *testing.B) {
	containers := make([]*v1alpha1.ImmortalContainer, 10000)
	for i := range containers {
		ready := saying("Ready", "True", "PodReady")
		if i%10 == 0 {
			ready = saying("Ready", "False", "BackingOff")
		}
		containers[i] = containerWith(fmt.Sprint(i), i, saying("Progressing", "False", "Running"), ready)
	}
	CountObjects(b.Context(), cacheOf(b, containers...), "D", conditionsOf, "PodStarting", "Suspended", "BackingOff")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := legacyregistry.DefaultGatherer.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScrapeOfNoObjects(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := legacyregistry.DefaultGatherer.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
