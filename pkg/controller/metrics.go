// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	syncTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "millwright_controller",
		Name:           "syncs_total",
		Help:           "Number of syncs by result: success, stale (decided from an old version, retried), error (retried), permanent (not retried), panic (retried).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller", "result"})

	syncDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      "millwright_controller",
		Name:           "sync_duration_seconds",
		Help:           "How long one sync takes, its API requests included.",
		Buckets:        metrics.ExponentialBuckets(0.0001, 4, 10),
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller"})
)

func init() {
	legacyregistry.MustRegister(syncTotal, syncDuration)
}

func observeSync(controller string, duration time.Duration, err error) {
	syncTotal.WithLabelValues(controller, syncResult(err)).Inc()
	syncDuration.WithLabelValues(controller).Observe(duration.Seconds())
}

func syncResult(err error) string {
	var panicked *panicError
	switch {
	case err == nil:
		return "success"
	case errors.As(err, &panicked):
		return "panic"
	case IsPermanent(err):
		return "permanent"
	case isStale(err):
		return "stale"
	default:
		return "error"
	}
}
