// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sample is one value of a metric.
type sample struct {
	labels map[string]string
	value  float64
}

// samples are those of all metrics, by name. Histograms are left out.
type samples map[string][]sample

// sum over all labels.
func (s samples) sum(name string) (total float64) {
	for _, sample := range s[name] {
		total += sample.value
	}
	return total
}

func scrape(ctx context.Context, url string) (samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return parseMetrics(resp.Body)
}

// parseMetrics reads the text format of Prometheus.
func parseMetrics(text io.Reader) (samples, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	result := samples{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			s := sample{labels: map[string]string{}}
			for _, label := range metric.GetLabel() {
				s.labels[label.GetName()] = label.GetValue()
			}
			switch {
			case metric.GetCounter() != nil:
				s.value = metric.GetCounter().GetValue()
			case metric.GetGauge() != nil:
				s.value = metric.GetGauge().GetValue()
			case metric.GetUntyped() != nil:
				s.value = metric.GetUntyped().GetValue()
			default:
				continue
			}
			result[name] = append(result[name], s)
		}
	}
	return result, nil
}
