// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metricstest is for tests of the controllers' metrics: it reads what a scrape of this process would tell.
package metricstest

import (
	"maps"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// Scraped returns the values of a counter or gauge by the value of the label, of those series that have all of the other labels.
func Scraped(t testing.TB, name, label string, others map[string]string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != name || !testutil.LabelsMatch(metric, others) {
				continue
			}
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label {
					values[pair.GetValue()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
				}
			}
		}
	}
	return values
}

// Rises returns how much a counter has risen since it was scraped before, by the value of the label, where it has.
func Rises(t testing.TB, name, label string, others map[string]string, before map[string]float64) map[string]float64 {
	t.Helper()
	risen := map[string]float64{}
	for value, count := range Scraped(t, name, label, others) {
		if count > before[value] {
			risen[value] = count - before[value]
		}
	}
	return risen
}

// States returns how many objects of the kind a scrape counts in each state, where there are any.
func States(t testing.TB, kind string) map[string]float64 {
	t.Helper()
	counted := Scraped(t, "millwright_objects", "state", map[string]string{"kind": kind})
	maps.DeleteFunc(counted, func(_ string, count float64) bool { return count == 0 })
	return counted
}
