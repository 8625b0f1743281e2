// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// MetricLabel is a label of a metric, with all the values that it can have. Without values, they are known only at run time.
type MetricLabel struct {
	Name   string
	Values []string
}

// Label returns a label that can have these values.
func Label[T ~string](name string, values ...T) MetricLabel {
	label := MetricLabel{Name: name}
	for _, value := range values {
		label.Values = append(label.Values, string(value))
	}
	return label
}

// NewCounter registers a counter without labels.
func NewCounter(subsystem, name, help string) *metrics.Counter {
	counter := metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	legacyregistry.MustRegister(counter)
	return counter
}

// CounterVec is a counter with labels.
type CounterVec struct {
	*metrics.CounterVec
	labels []MetricLabel
}

// NewCounterVec registers a counter with labels. Labels without values come first.
func NewCounterVec(subsystem, name, help string, labels ...MetricLabel) *CounterVec {
	vec := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, namesOf(labels))
	legacyregistry.MustRegister(vec)
	return &CounterVec{vec, labels}
}

// ShowZero creates the series of all values with 0: the first change has to be seen as a rise, not as a new time series. The arguments are the
// values of the labels that have none.
func (c *CounterVec) ShowZero(values ...string) {
	forEachSeries(c.labels, values, func(series []string) { c.WithLabelValues(series...) })
}

// HistogramVec is a histogram with labels.
type HistogramVec struct {
	*metrics.HistogramVec
	labels []MetricLabel
}

// NewHistogramVec registers a histogram with labels. Labels without values come first.
func NewHistogramVec(subsystem, name, help string, buckets []float64, labels ...MetricLabel) *HistogramVec {
	opts := &metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}
	vec := metrics.NewHistogramVec(opts, namesOf(labels))
	legacyregistry.MustRegister(vec)
	return &HistogramVec{vec, labels}
}

// ShowZero creates the series of all values, as CounterVec.ShowZero does.
func (h *HistogramVec) ShowZero(values ...string) {
	forEachSeries(h.labels, values, func(series []string) { h.WithLabelValues(series...) })
}

func namesOf(labels []MetricLabel) []string {
	names := make([]string, len(labels))
	for i, label := range labels {
		names[i] = label.Name
	}
	return names
}

// forEachSeries calls create with each combination of values, the first ones being given.
func forEachSeries(labels []MetricLabel, values []string, create func([]string)) {
	if len(values) == len(labels) {
		create(values)
		return
	}
	for _, value := range labels[len(values)].Values {
		forEachSeries(labels, append(values[:len(values):len(values)], value), create)
	}
}
