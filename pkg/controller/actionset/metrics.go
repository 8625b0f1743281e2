// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// Values of the label resolution.
const (
	resolutionSuccess = "success"
	resolutionFailure = "failure"
)

var (
	byResolution = controller.Label("resolution", resolutionSuccess, resolutionFailure)

	// resolutions has the name and the labels that dashboards made for Kanister look for.
	resolutions = controller.NewCounterVec("kanister_action_set", "resolutions_total",
		"Number of actions of ActionSets that have ended, by resolution: success or failure.", byResolution)

	durationBuckets = []float64{0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 43200}

	actionDuration = controller.NewHistogramVec("millwright_actionset", "action_duration_seconds",
		"How long actions took from the start of their ActionSet to their own end, by resolution.", durationBuckets, byResolution)

	phaseDuration = controller.NewHistogramVec("millwright_actionset", "phase_duration_seconds",
		"How long phases took, by function and state: complete or failed. Times are those of the status, in whole seconds.", durationBuckets,
		controller.Label("function", blueprint.Names()...),
		controller.Label("state", v1alpha1.StateComplete, v1alpha1.StateFailed))
)

// countedReasons are the states of ActionSets in millwright_objects, in addition to Ready, which means complete.
var countedReasons = []string{
	v1alpha1.ReasonLaunching, v1alpha1.ReasonRunning, v1alpha1.ReasonInvalid, v1alpha1.ReasonPhaseFailed, v1alpha1.ReasonDeferPhaseFailed,
	v1alpha1.ReasonArtifactsFailed, v1alpha1.ReasonControllerRestarted, v1alpha1.ReasonRunLost, v1alpha1.ReasonStatusTooLarge,
	v1alpha1.ReasonCancelRequested, v1alpha1.ReasonDeleted,
}

// publishMetrics publishes the metrics until the context ends. The series of all resolutions and functions exist from the first scrape on.
func publishMetrics(ctx context.Context, sets cache.SharedIndexInformer) {
	resolutions.ShowZero()
	actionDuration.ShowZero()
	phaseDuration.ShowZero()
	controller.CountObjects(ctx, sets, kind.Kind, countedAs, countedReasons...)
}

// countedAs returns the condition by which an ActionSet is counted.
func countedAs(set *v1alpha1.ActionSet) []metav1.Condition {
	if set.Status == nil {
		return nil
	}
	if complete := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionComplete); complete != nil {
		condition := *complete
		condition.Type = "Ready"
		return []metav1.Condition{condition}
	}
	progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
	if progressing == nil {
		return nil
	}
	condition := *progressing
	condition.Type, condition.Status = "Ready", metav1.ConditionFalse
	return []metav1.Condition{condition}
}

// count counts the phases and actions that have ended between two statuses that were written one after the other.
func count(r *snapshot, before, after *v1alpha1.ActionSetStatus) {
	for _, ended := range phasesEnded(before, after) {
		p := phaseIn(after, ended)
		if called := r.phaseOf(ended); called != nil && p.StartTime != nil {
			phaseDuration.WithLabelValues(called.Func, string(p.State)).Observe(p.CompletionTime.Sub(p.StartTime.Time).Seconds())
		}
	}
	if hasFinished(before) || !hasFinished(after) {
		return
	}
	for i := range after.Actions {
		resolution := resolutionSuccess
		if after.State != v1alpha1.StateComplete && (!hasSucceeded(&after.Actions[i]) || !hasStarted(after) || len(after.Actions) == 1) {
			resolution = resolutionFailure
		}
		resolutions.WithLabelValues(resolution).Inc()
		if hasStarted(after) {
			actionDuration.WithLabelValues(resolution).Observe(endOf(after, i).Sub(after.StartTime.Time).Seconds())
		}
	}
	if len(after.Actions) == 0 && after.State == v1alpha1.StateFailed {
		resolutions.WithLabelValues(resolutionFailure).Inc()
	}
}

// phasesEnded returns the phases that have ended between two statuses.
func phasesEnded(before, after *v1alpha1.ActionSetStatus) (keys []phaseKey) {
	for i := range after.Actions {
		for p := phase.Deferred; p < len(after.Actions[i].Phases); p++ {
			key := phaseKey{i, p}
			was, is := phaseIn(before, key), phaseIn(after, key)
			if is.CompletionTime != nil && (was == nil || was.CompletionTime == nil) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// endOf returns when the last phase of an action has ended. An action without phases ends with its ActionSet.
func endOf(status *v1alpha1.ActionSetStatus, i int) (end time.Time) {
	for p := phase.Deferred; p < len(status.Actions[i].Phases); p++ {
		if of := phaseIn(status, phaseKey{i, p}); of.CompletionTime != nil && of.CompletionTime.After(end) {
			end = of.CompletionTime.Time
		}
	}
	if end.IsZero() {
		end = status.CompletionTime.Time
	}
	return end
}
