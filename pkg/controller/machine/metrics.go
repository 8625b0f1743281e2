// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

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
	targets = controller.Label("target", targetSwitch, targetLever)

	flips = controller.NewCounterVec("millwright_machine", "flips_total",
		"Number of times that a switch, or the lever of a Machine, was moved down.", targets)

	lateness = controller.NewHistogramVec("millwright_machine", "flip_lateness_seconds",
		"How much later than due a switch or a lever was moved down. It is due when flipDelaySeconds after it was seen are over, "+
			"and a switch not before flipIntervalSeconds after the last flip of its Machine are over.",
		[]float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300}, targets)

	switchChanges = controller.NewCounterVec("millwright_machine", "switch_changes_total",
		"Number of switches that Machines have created, deleted, adopted or released.",
		controller.Label("change", changeCreated, changeDeleted, changeAdopted, changeReleased))
)

// readyReasons are states of their own in millwright_objects.
var readyReasons = []string{v1alpha1.ReasonScaling, v1alpha1.ReasonInvalidSelector, v1alpha1.ReasonSelectorOverlap, v1alpha1.ReasonCreateFailed}

// publishMetrics publishes the metrics until the context ends. All series exist from the first scrape on, with 0.
func publishMetrics(ctx context.Context, machines cache.SharedIndexInformer) {
	flips.ShowZero()
	lateness.ShowZero()
	switchChanges.ShowZero()
	controller.CountObjects(ctx, machines, "Machine", func(machine *v1alpha1.Machine) []metav1.Condition { return machine.Status.Conditions }, readyReasons...)
}

// countFlip counts a flip that was due at that time and is done now.
func countFlip(target string, due time.Time) {
	flips.WithLabelValues(target).Inc()
	lateness.WithLabelValues(target).Observe(max(time.Since(due), 0).Seconds())
}
