// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "slices"

// Median of the samples; of two in the middle their mean. There is none of no samples: 0.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentile is the sample that so many of a hundred do not exceed. There is none of no samples: 0.
func Percentile(samples []float64, of int) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[(len(sorted)*of+99)/100-1]
}

// Ratios divides each sample by that of the same place. Both were measured one after the other: what slowed down the
// machine then slowed down both.
func Ratios(samples, by []float64) []float64 {
	ratios := make([]float64, 0, len(samples))
	for i := range min(len(samples), len(by)) {
		ratios = append(ratios, samples[i]/by[i])
	}
	return ratios
}
