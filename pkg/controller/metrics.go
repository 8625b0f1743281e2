// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of a sync.
const (
	resultSuccess = "success"
	// resultConflict is an optimistic-lock conflict. Its value "stale" is older than this name, and dashboards use it.
	resultConflict  = "stale"
	resultError     = "error"
	resultPermanent = "permanent"
	resultInvalid   = "invalid"
	resultPostponed = "postponed"
	resultPanic     = "panic"
)

var (
	syncTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "millwright_controller",
		Name:           "syncs_total",
		Help:           "Number of syncs by result: success, stale (optimistic-lock conflict, retried), error (retried), permanent (not retried), invalid (an object was rejected as invalid, retried within five minutes), panic (retried), postponed (stale cache, waits for its turn, or has done only a part).",
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

// syncMetrics are the metrics of one controller, looked up once.
type syncMetrics struct {
	total    map[string]metrics.CounterMetric
	duration metrics.ObserverMetric
}

// newSyncMetrics creates the series of each result with 0, so that the first panic shows as an increase, not as a new time series.
func newSyncMetrics(controller string) syncMetrics {
	m := syncMetrics{total: map[string]metrics.CounterMetric{}, duration: syncDuration.WithLabelValues(controller)}
	for _, result := range []string{resultSuccess, resultConflict, resultError, resultPermanent, resultInvalid, resultPanic, resultPostponed} {
		m.total[result] = syncTotal.WithLabelValues(controller, result)
	}
	return m
}

func (m syncMetrics) observe(duration time.Duration, err error) {
	m.total[syncResult(err)].Inc()
	m.duration.Observe(duration.Seconds())
}

func syncResult(err error) string {
	if err == nil {
		return resultSuccess
	}
	switch severityOf(err) {
	case severityPostponed:
		return resultPostponed
	case severityPanic:
		return resultPanic
	case severityPermanent:
		return resultPermanent
	case severityInvalid:
		return resultInvalid
	case severityConflict:
		return resultConflict
	default:
		return resultError
	}
}
