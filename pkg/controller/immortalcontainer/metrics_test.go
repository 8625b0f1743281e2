// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/testutil"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/metricstest"
)

func TestEveryStartIsCountedOnceByItsCause(t *testing.T) {
	for name, tc := range map[string]struct {
		does func(a *apiServer)
		want map[string]float64
	}{
		"a first start":                      {func(*apiServer) {}, map[string]float64{"first": 1}},
		"a Pod that is deleted":              {deleteAndWait, map[string]float64{"first": 1, "deleted": 1}},
		"a Pod that takes long to terminate": {deleteSlowly, map[string]float64{"first": 1, "deleted": 1}},
		"a Pod that fails":                   {func(a *apiServer) { a.podBecomes(podEnded(1, "Error", 0)) }, map[string]float64{"first": 1, "failed": 1}},
		"a Pod that succeeds":                {func(a *apiServer) { a.podBecomes(podEnded(0, "Completed", 0)) }, map[string]float64{"first": 1, "succeeded": 1}},
		"another image": {func(a *apiServer) {
			a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
			time.Sleep(30 * time.Second)
			a.podGoes()
		}, map[string]float64{"first": 1, "replaced": 1}},
		"a suspension and its end": {func(a *apiServer) {
			a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = true })
			time.Sleep(30 * time.Second)
			a.podGoes()
			time.Sleep(time.Second)
			a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = false })
		}, map[string]float64{"first": 1, "resumed": 1}},
		"a deletion whose new Pod the API server refuses at first": {func(a *apiServer) {
			a.Fail("create pods", errors.New("connection refused"), errors.New("connection refused"))
			deleteAndWait(a)
		}, map[string]float64{"first": 1, "reserved": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				const metric = "millwright_immortalcontainer_pods_started_total"
				before := metricstest.Scraped(t, metric, "cause", nil)
				coldStart(a)
				tc.does(a)
				time.Sleep(time.Hour)
				synctest.Wait()
				if diff := cmp.Diff(tc.want, metricstest.Rises(t, metric, "cause", nil, before)); diff != "" {
					t.Errorf("starts by cause (-want +got):\n%s", diff)
				}
				if got := a.starts; len(got) != len(tc.want) {
					t.Errorf("the API server has accepted starts %v, want %d", got, len(tc.want))
				}
			})
		})
	}
}

func deleteAndWait(a *apiServer) {
	a.podIsDeleted()
	a.podGoes()
}

func deleteSlowly(a *apiServer) {
	a.podIsDeleted()
	time.Sleep(20 * time.Second)
	a.podGoes()
}

func TestMetricsOfStates(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		wantStates := func(what string, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, metricstest.States(t, "ImmortalContainer")); diff != "" {
				t.Errorf("states, %s (-want +got):\n%s", what, diff)
			}
		}
		wantStates("before anything runs", map[string]float64{})
		stop := coldStart(a)
		wantStates("with a ready Pod", map[string]float64{"Ready": 1})
		a.podFails()
		wantStates("after it has failed", map[string]float64{"BackingOff": 1})
		time.Sleep(10 * time.Second)
		wantStates("when the next one starts", map[string]float64{"PodStarting": 1})
		a.podBecomes(podWaiting("ImagePullBackOff"))
		time.Sleep(time.Minute)
		wantStates("while its image is not there", map[string]float64{"ImagePullBackOff": 1})
		a.podBecomes(podWaiting("ABadDay"))
		wantStates("for an unknown reason", map[string]float64{"Other": 1})
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = true })
		time.Sleep(time.Minute)
		wantStates("when it is suspended", map[string]float64{"Suspended": 1})
		stop()
		wantStates("after the controller has stopped", map[string]float64{})
	})
}

func TestConflictMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		kind := map[string]string{"kind": "ImmortalContainer"}
		met, _ := testutil.GetCounterMetricValue(conflictsMet)
		a.podAppears(podOf(1, podForeign, podUnlabelled))
		a.operate()
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(map[string]float64{"Conflict": 1}, metricstest.States(t, "ImmortalContainer")); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		unready := metricstest.Scraped(t, "millwright_objects_longest_unready_seconds", "state", kind)
		if diff := cmp.Diff(map[string]float64{"Conflict": 3600}, unready); diff != "" {
			t.Errorf("for how long (-want +got):\n%s", diff)
		}
		if now, _ := testutil.GetCounterMetricValue(conflictsMet); now != met+1 {
			t.Errorf("in an hour %v conflicts were counted, want one", now-met)
		}
		a.removePod()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := metricstest.States(t, "ImmortalContainer")["Conflict"]; got != 0 {
			t.Errorf("%v conflicts show after the foreign Pod has gone", got)
		}
	})
}
