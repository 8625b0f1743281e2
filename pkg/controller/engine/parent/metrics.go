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

// ofController is the label that the hooks' metrics have too, so that both can be joined.
var ofController = controller.MetricLabel{Name: "controller_name"}

// kindMetrics are the metrics of the parents of one kind of Declarations. The number of series does not depend on the number of parents.
type kindMetrics struct {
	parents *metrics.GaugeVec
	changes *controller.CounterVec
	syncs   *controller.CounterVec
}

var metricsOf = map[Kind]*kindMetrics{
	Composite: newKindMetrics("millwright_composite", "parents", "child_changes_total",
		"Number of parents of a CompositeController: of those objects that its parentResource selects, or that have its finalizer.",
		"Number of children that were created, updated, recreated (deleted, to be created again as desired), deleted, adopted or released "+
			"for a CompositeController.",
		"Number of syncs of a parent of a CompositeController by result: changed (something was written), unchanged (all was as desired), "+
			"error (tried again)."),
	Decorator: newKindMetrics("millwright_decorator", "targets", "attachment_changes_total",
		"Number of targets of a DecoratorController: of those objects that its resources select, or that have its finalizer.",
		"Number of attachments that were created, updated, recreated (deleted, to be created again as desired) or deleted for a DecoratorController.",
		"Number of syncs of a target of a DecoratorController by result: changed (something was written), unchanged (all was as desired), "+
			"error (tried again)."),
}

func newKindMetrics(subsystem, parents, changes, parentsHelp, changesHelp, syncsHelp string) *kindMetrics {
	m := &kindMetrics{
		parents: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: parents, Help: parentsHelp, StabilityLevel: metrics.ALPHA,
		}, []string{ofController.Name}),
		changes: controller.NewCounterVec(subsystem, changes, changesHelp, ofController,
			controller.Label("change", changeCreated, changeUpdated, changeRecreated, changeDeleted, changeAdopted, changeReleased)),
		syncs: controller.NewCounterVec(subsystem, "syncs_total", syncsHelp, ofController,
			controller.Label("result", resultChanged, resultUnchanged, resultError)),
	}
	legacyregistry.MustRegister(m.parents)
	return m
}

// InitMetrics creates all series of a Declaration with 0: the first change has to be seen as a rise, not as a new time series.
func InitMetrics(kind Kind, name string) {
	m := metricsOf[kind]
	m.parents.WithLabelValues(name)
	m.changes.ShowZero(name)
	m.syncs.ShowZero(name)
}

// DeleteMetrics removes all series of a Declaration whose Controller is stopped.
func DeleteMetrics(kind Kind, name string) {
	m, of := metricsOf[kind], map[string]string{ofController.Name: name}
	m.parents.DeletePartialMatch(of)
	m.changes.DeletePartialMatch(of)
	m.syncs.DeletePartialMatch(of)
}

// countChild counts a change of a child.
func countChild(kind Kind, controller, change string) {
	metricsOf[kind].changes.WithLabelValues(controller, change).Inc()
}

// countSync counts a sync of a parent.
func countSync(kind Kind, controller, result string) {
	metricsOf[kind].syncs.WithLabelValues(controller, result).Inc()
}

// setParentCount sets the number of parents.
func setParentCount(kind Kind, name string, n int) {
	metricsOf[kind].parents.WithLabelValues(name).Set(float64(n))
}
