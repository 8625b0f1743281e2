// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"millwright.dev/pkg/controller"
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
	ofController = controller.MetricLabel{Name: "controller_name"}

	parentsServed = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem:      "millwright_composite",
		Name:           "parents",
		Help:           "Number of parents of a CompositeController: of those objects that its parentResource selects, or that have its finalizer.",
		StabilityLevel: metrics.ALPHA,
	}, []string{ofController.Name})

	childChanges = controller.NewCounterVec("millwright_composite", "child_changes_total",
		"Number of children that were created, updated, recreated (deleted, to be created again as desired), deleted, adopted or released "+
			"for a CompositeController.",
		ofController, controller.Label("change", changeCreated, changeUpdated, changeRecreated, changeDeleted, changeAdopted, changeReleased))

	parentSyncs = controller.NewCounterVec("millwright_composite", "syncs_total",
		"Number of syncs of a parent of a CompositeController by result: changed (something was written), unchanged (all was as desired), "+
			"error (tried again).",
		ofController, controller.Label("result", resultChanged, resultUnchanged, resultError))
)

func init() {
	legacyregistry.MustRegister(parentsServed)
}

// InitMetrics creates all series of a CompositeController with 0: the first change has to be seen as a rise, not as a new time series.
func InitMetrics(name string) {
	parentsServed.WithLabelValues(name)
	childChanges.ShowZero(name)
	parentSyncs.ShowZero(name)
}

// DeleteMetrics removes all series of a CompositeController whose Controller is stopped.
func DeleteMetrics(name string) {
	of := map[string]string{ofController.Name: name}
	parentsServed.DeletePartialMatch(of)
	childChanges.DeletePartialMatch(of)
	parentSyncs.DeletePartialMatch(of)
}

// countChild counts a change of a child.
func countChild(controller, change string) { childChanges.WithLabelValues(controller, change).Inc() }

// countSync counts a sync of a parent.
func countSync(controller, result string) { parentSyncs.WithLabelValues(controller, result).Inc() }

// setParentCount sets the number of parents.
func setParentCount(name string, n int) {
	parentsServed.WithLabelValues(name).Set(float64(n))
}
