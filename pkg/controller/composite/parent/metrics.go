// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Values of the label change.
const (
	changeCreated   = "created"
	changeUpdated   = "updated"
	changeRecreated = "recreated" // deleted, to be created again as desired
	changeDeleted   = "deleted"
	changeAdopted   = "adopted"
	changeReleased  = "released"
)

// Values of the label result.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultError     = "error"
)

// The label controller_name is that of the hooks' metrics, so that both can be joined. The number of series does not depend on the number of
// parents.
var (
	parentsServed = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem:      "millwright_composite",
		Name:           "parents",
		Help:           "Number of parents of a CompositeController: of those objects that its parentResource selects, or that have its finalizer.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller_name"})

	childChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "millwright_composite",
		Name:      "child_changes_total",
		Help: "Number of children that were created, updated, recreated (deleted, to be created again as desired), deleted, adopted or released " +
			"for a CompositeController.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller_name", "change"})

	parentSyncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "millwright_composite",
		Name:      "syncs_total",
		Help: "Number of syncs of a parent of a CompositeController by result: changed (something was written), unchanged (all was as desired), " +
			"error (tried again).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller_name", "result"})
)

func init() {
	legacyregistry.MustRegister(parentsServed, childChanges, parentSyncs)
}

// InitMetrics creates all series of a CompositeController with 0: the first change has to be seen as a rise, not as a new time series.
func InitMetrics(controller string) {
	parentsServed.WithLabelValues(controller)
	for _, change := range []string{changeCreated, changeUpdated, changeRecreated, changeDeleted, changeAdopted, changeReleased} {
		childChanges.WithLabelValues(controller, change)
	}
	for _, result := range []string{resultChanged, resultUnchanged, resultError} {
		parentSyncs.WithLabelValues(controller, result)
	}
}

// DeleteMetrics removes all series of a CompositeController whose Controller is stopped.
func DeleteMetrics(controller string) {
	of := map[string]string{"controller_name": controller}
	parentsServed.DeletePartialMatch(of)
	childChanges.DeletePartialMatch(of)
	parentSyncs.DeletePartialMatch(of)
}

// countChild counts a change of a child.
func countChild(controller, change string) { childChanges.WithLabelValues(controller, change).Inc() }

// countSync counts a sync of a parent.
func countSync(controller, result string) { parentSyncs.WithLabelValues(controller, result).Inc() }

// setParentCount sets the number of parents.
func setParentCount(controller string, n int) {
	parentsServed.WithLabelValues(controller).Set(float64(n))
}
