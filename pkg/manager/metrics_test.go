// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	restmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	immortalcontainersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// scrape is what /metrics answers in a process that leads and runs all controllers, after each kind of metric was used.
func scrape(t *testing.T) (text []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		resources := map[schema.GroupVersion][]string{}
		for _, d := range Descriptors() {
			for _, resource := range d.Requires {
				resources[resource.GroupVersion()] = append(resources[resource.GroupVersion()], resource.Resource)
			}
		}
		for of, plurals := range resources {
			cluster.serve(served(of.Group, of.Version, plurals...))
		}
		suspended := &immortalcontainersv1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		suspended.Spec.Suspend = true
		if err := cluster.millwright.Tracker().Add(suspended); err != nil {
			t.Fatal(err)
		}
		// Fakes make no requests that are counted.
		at, _ := url.Parse("https://10.96.0.1")
		restmetrics.RequestResult.Increment(t.Context(), "200", http.MethodGet, at.Host)
		restmetrics.RequestLatency.Observe(t.Context(), http.MethodGet, *at, time.Second)
		countStall("pods.v1", 0)

		p := newProcess(t, cluster, Descriptors()...).start()
		settled(time.Minute)
		answer := httptest.NewRecorder()
		legacyregistry.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if answer.Code != http.StatusOK {
			t.Fatalf("got %d: %s", answer.Code, answer.Body)
		}
		text = answer.Body.Bytes()
		if err := p.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return text
}

// unbounded are names of labels that have as many values as there are objects, or texts.
var unbounded = sets.New("namespace", "name", "pod", "uid", "key", "image", "message", "error", "path", "host")

// faultsIn the metrics of ours, one line each.
func faultsIn(t *testing.T, text []byte) (faults []string, ours int) {
	t.Helper()
	problems, err := testutil.NewPromLinter(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.Contains(problem.Metric, "millwright") {
			faults = append(faults, problem.Metric+": "+problem.Text)
		}
	}
	families, err := testutil.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		if !strings.Contains(name, "millwright") {
			continue
		}
		ours++
		if !strings.HasPrefix(name, "millwright_") {
			faults = append(faults, name+": begins with millwright_")
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if unbounded.Has(label.GetName()) {
					faults = append(faults, name+": the label "+label.GetName()+" has as many values as there are objects")
				}
			}
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults), ours
}

func TestOurMetricsFollowTheConventions(t *testing.T) {
	faults, ours := faultsIn(t, scrape(t))
	if len(faults) > 0 {
		t.Errorf("metrics that do not follow the conventions of Prometheus:\n%s", strings.Join(faults, "\n"))
	}
	if ours < 12 {
		t.Errorf("only %d metrics are ours: this test looks in the wrong place", ours)
	}
}

func TestMetricConventions(t *testing.T) {
	for name, tc := range map[string]struct {
		metric, help, label, want string
	}{
		"without its unit at the end":  {"millwright_flips", "Flips.", "kind", `millwright_flips: counter metrics should have "_total" suffix`},
		"without a text":               {"millwright_flips_total", "", "kind", "millwright_flips_total: no help text"},
		"in minutes":                   {"millwright_wait_minutes_total", "Waits.", "kind", `millwright_wait_minutes_total: use base unit "seconds" instead of "minutes"`},
		"with a label in camel case":   {"millwright_flips_total", "Flips.", "theKind", "millwright_flips_total: label names should be written in 'snake_case' not 'camelCase'"},
		"with a label that has no end": {"millwright_flips_total", "Flips.", "namespace", "millwright_flips_total: the label namespace has as many values as there are objects"},
		"with a prefix of its own":     {"my_millwright_flips_total", "Flips.", "kind", "my_millwright_flips_total: begins with millwright_"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := metrics.NewKubeRegistry()
			counter := metrics.NewCounterVec(&metrics.CounterOpts{Name: tc.metric, Help: tc.help}, []string{tc.label})
			if err := registry.Register(counter); err != nil {
				t.Fatal(err)
			}
			counter.WithLabelValues("x").Inc()
			answer := httptest.NewRecorder()
			metrics.HandlerFor(registry, metrics.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			text := strings.ReplaceAll(answer.Body.String(), "[ALPHA] \n", "\n") // which every text begins with
			if faults, _ := faultsIn(t, []byte(text)); !slices.Contains(faults, tc.want) {
				t.Errorf("found %q, want %q", faults, tc.want)
			}
		})
	}
}
