// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of queues, informers, requests and leadership
)

var buildInfo = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Subsystem:      "millwright",
	Name:           "build_info",
	Help:           "Always 1, labeled by the version of Millwright, the Go version it was built with, and the platform it runs on.",
	StabilityLevel: metrics.ALPHA,
}, []string{"version", "go_version", "platform"})

var watchesStalled = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Subsystem:      "millwright",
	Name:           "watches_stalled",
	Help:           "Number of lists and watches of a resource that have had no success for 15 seconds, so that changes of its objects are not seen.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource"})

func init() {
	legacyregistry.MustRegister(buildInfo, watchesStalled)
}

// countStall adds to the number of stalled lists and watches of a resource.
func countStall(resource string, n float64) { watchesStalled.WithLabelValues(resource).Add(n) }

func recordVersion(version string) {
	buildInfo.WithLabelValues(version, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH).Set(1)
}
