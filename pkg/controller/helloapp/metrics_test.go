// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/testing/metricstest"
)

func TestAppliesAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		does   func(a *apiServer)
		want   map[string]float64
	}{
		"a Deployment from nothing": {"Deployment", func(*apiServer) {}, map[string]float64{"created": 1}},
		"a Service from nothing":    {"Service", func(*apiServer) {}, map[string]float64{"created": 1}},
		"another image": {"Deployment", func(a *apiServer) { a.edit(func(spec *v1.HelloAppSpec) { spec.Image = "nginx:2" }) },
			map[string]float64{"created": 1, "updated": 1}},
		"a Deployment that a user scales": {"Deployment", func(a *apiServer) {
			a.deploymentBecomes(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) })
		}, map[string]float64{"created": 1, "restored": 1}},
		"a Service whose selector a user changes": {"Service", func(a *apiServer) {
			a.serviceBecomes(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "mine"} })
		}, map[string]float64{"created": 1, "restored": 1}},
		"a Deployment that lost its owner": {"Deployment", func(a *apiServer) { a.deploymentBecomes(deployed(orphaned)) },
			map[string]float64{"created": 1, "adopted": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				const metric = "millwright_helloapp_applies_total"
				object := map[string]string{"object": tc.object}
				before := metricstest.Scraped(t, metric, "result", object)
				coldStart(a)
				tc.does(a)
				time.Sleep(time.Hour)
				synctest.Wait()
				if diff := cmp.Diff(tc.want, metricstest.Rises(t, metric, "result", object, before)); diff != "" {
					t.Errorf("applies by result (-want +got):\n%s", diff)
				}
			}, withPort(80))
		})
	}
}

func TestMetricsOfRolloutAndConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		wantStates := func(what string, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, metricstest.States(t, "HelloApp")); diff != "" {
				t.Errorf("states, %s (-want +got):\n%s", what, diff)
			}
		}
		met, _ := testutil.GetCounterMetricValue(conflictsMet)
		a.serviceAppears(serviceOf(newApp(withPort(80)), notOurs))
		stop, _ := a.operate()
		synctest.Wait()
		a.deploymentBecomes(rolledOut)
		time.Sleep(time.Hour)
		wantStates("with a foreign Service, though its Pods are ready", map[string]float64{"Conflict": 1})
		if now, _ := testutil.GetCounterMetricValue(conflictsMet); now != met+1 {
			t.Errorf("in an hour %v conflicts were counted, want one", now-met)
		}
		a.serviceGoes()
		time.Sleep(time.Minute)
		wantStates("after it has gone", map[string]float64{"Ready": 1})
		a.edit(func(spec *v1.HelloAppSpec) { spec.Image = "nginx:2" })
		time.Sleep(time.Minute)
		wantStates("during a rollout", map[string]float64{"Progressing": 1})
		stop()
		wantStates("after the controller has stopped", map[string]float64{})
	}, withPort(80))
}
