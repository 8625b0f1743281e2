// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestShowZero(t *testing.T) {
	counter := NewCounterVec("test_showzero", "total", "Help.",
		MetricLabel{Name: "of"}, Label("color", "red", "green"), Label("size", "s", "l"))
	histogram := NewHistogramVec("test_showzero", "seconds", "Help.", []float64{1}, Label("color", "red"))
	counter.ShowZero("a")
	counter.ShowZero("b")
	histogram.ShowZero()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "test_showzero") {
			continue
		}
		for _, metric := range family.Metric {
			series := []string{family.GetName()}
			for _, label := range metric.Label {
				series = append(series, label.GetValue())
			}
			got[strings.Join(series, " ")] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	want := map[string]float64{ // labels are sorted by name
		"test_showzero_total red a s": 0, "test_showzero_total red a l": 0, "test_showzero_total green a s": 0, "test_showzero_total green a l": 0,
		"test_showzero_total red b s": 0, "test_showzero_total red b l": 0, "test_showzero_total green b s": 0, "test_showzero_total green b l": 0,
		"test_showzero_seconds red": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
