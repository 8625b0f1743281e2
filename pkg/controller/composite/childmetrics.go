// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What becomes of children.
const (
	changeCreated   = "created"
	changeUpdated   = "updated"
	changeRecreated = "recreated" // deleted, to be created anew as desired
	changeDeleted   = "deleted"
	changeAdopted   = "adopted"
	changeReleased  = "released"
)

// Results of a sync of a parent.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultError     = "error"
)

// The label is that of the hooks' metrics, so that they can be seen side by side. There are as many series as CompositeControllers,
// whatever the number of parents.
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
		Help: "Number of children that were created, updated, recreated (deleted, to be created anew as desired), deleted, adopted or released " +
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

// meetController makes all that is counted of a CompositeController known with 0: the first change is to be seen as a rise, not as a
// new time series.
func meetController(controller string) {
	parentsServed.WithLabelValues(controller)
	for _, change := range []string{changeCreated, changeUpdated, changeRecreated, changeDeleted, changeAdopted, changeReleased} {
		childChanges.WithLabelValues(controller, change)
	}
	for _, result := range []string{resultChanged, resultUnchanged, resultError} {
		parentSyncs.WithLabelValues(controller, result)
	}
}

// forgetController removes all series of a CompositeController that has gone. None of its parents is being synced any more.
func forgetController(controller string) {
	of := map[string]string{"controller_name": controller}
	parentsServed.DeletePartialMatch(of)
	childChanges.DeletePartialMatch(of)
	parentSyncs.DeletePartialMatch(of)
}

// countChild counts what has become of a child.
func countChild(controller, change string) { childChanges.WithLabelValues(controller, change).Inc() }

// countSync counts a sync of a parent.
func countSync(controller, result string) { parentSyncs.WithLabelValues(controller, result).Inc() }

// setParents tells how many parents there are.
func setParents(controller string, n int) {
	parentsServed.WithLabelValues(controller).Set(float64(n))
}
