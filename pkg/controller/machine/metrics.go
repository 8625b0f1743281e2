// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// Targets of flips.
const (
	targetSwitch = "switch"
	targetLever  = "lever"
)

// Changes of switches.
const (
	changeCreated  = "created"
	changeDeleted  = "deleted"
	changeAdopted  = "adopted"
	changeReleased = "released"
)

var (
	flips = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "millwright_machine",
		Name:           "flips_total",
		Help:           "Number of times that a switch, or the lever of a Machine, was moved down.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"target"})

	lateness = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "millwright_machine",
		Name:      "flip_lateness_seconds",
		Help: "How much later than due a switch or a lever was moved down. It is due when flipDelaySeconds after it was seen are over, " +
			"and a switch not before flipIntervalSeconds after the last flip of its Machine are over.",
		Buckets:        []float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300},
		StabilityLevel: metrics.ALPHA,
	}, []string{"target"})

	switchChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "millwright_machine",
		Name:           "switch_changes_total",
		Help:           "Number of switches that Machines have created, deleted, adopted or released.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"change"})
)

func init() {
	legacyregistry.MustRegister(flips, lateness, switchChanges)
}

// readyReasons are states of their own in millwright_objects.
var readyReasons = []string{v1alpha1.ReasonScaling, v1alpha1.ReasonInvalidSelector, v1alpha1.ReasonSelectorOverlap, v1alpha1.ReasonCreateFailed}

// publishMetrics publishes the metrics until the context ends. All series exist from the first scrape on, with 0.
func publishMetrics(ctx context.Context, machines cache.SharedIndexInformer) {
	for _, target := range []string{targetSwitch, targetLever} {
		flips.WithLabelValues(target)
		lateness.WithLabelValues(target)
	}
	for _, change := range []string{changeCreated, changeDeleted, changeAdopted, changeReleased} {
		switchChanges.WithLabelValues(change)
	}
	controller.CountObjects(ctx, machines, "Machine", func(machine *v1alpha1.Machine) []metav1.Condition { return machine.Status.Conditions }, readyReasons...)
}

// countFlip counts a flip that was due at that time and is done now.
func countFlip(target string, due time.Time) {
	flips.WithLabelValues(target).Inc()
	lateness.WithLabelValues(target).Observe(max(time.Since(due), 0).Seconds())
}
