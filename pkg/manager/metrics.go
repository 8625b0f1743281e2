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

func init() {
	legacyregistry.MustRegister(buildInfo)
}

func recordVersion(version string) {
	buildInfo.WithLabelValues(version, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH).Set(1)
}
