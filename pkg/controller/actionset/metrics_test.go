// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

func TestActionMetrics(t *testing.T) {
	at := func(seconds int) *metav1.Time {
		at := metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
		return &at
	}
	ended := func(state v1alpha1.State, start, end int) v1alpha1.Phase {
		return v1alpha1.Phase{State: state, StartTime: at(start), CompletionTime: at(end)}
	}
	resolutions.Reset()
	actionDuration.Reset()
	phaseDuration.Reset()
	r := &snapshot{Actions: []snapshotAction{{Blueprint: actionOf("one")}, {Blueprint: actionOf("one")}}}
	running := &v1alpha1.ActionSetStatus{State: v1alpha1.StateFailed, StartTime: at(0), Actions: []v1alpha1.ActionStatus{
		{Phases: []v1alpha1.Phase{ended(v1alpha1.StateFailed, 0, 2)}}, {Phases: []v1alpha1.Phase{{State: v1alpha1.StateRunning, StartTime: at(0)}}},
	}}
	count(r, &v1alpha1.ActionSetStatus{StartTime: at(0), Actions: []v1alpha1.ActionStatus{
		{Phases: []v1alpha1.Phase{{State: v1alpha1.StateRunning}}}, {Phases: []v1alpha1.Phase{{State: v1alpha1.StateRunning}}},
	}}, running)
	end := running.DeepCopy()
	end.Actions[1].Phases[0] = ended(v1alpha1.StateComplete, 0, 7)
	end.CompletionTime = at(7)
	count(r, running, end)
	count(r, end, end)
	rejected := &v1alpha1.ActionSetStatus{State: v1alpha1.StateFailed, CompletionTime: at(0)}
	count(nil, nil, rejected)

	for resolution, want := range map[string]float64{resolutionSuccess: 1, resolutionFailure: 2} {
		got, err := testutil.GetCounterMetricValue(resolutions.WithLabelValues(resolution))
		if err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", resolution, got, err, want)
		}
	}
	for resolution, want := range map[string]float64{resolutionSuccess: 7, resolutionFailure: 2} {
		got, err := testutil.GetHistogramMetricValue(actionDuration.WithLabelValues(resolution))
		if err != nil || got != want {
			t.Errorf("actions, %s: %v seconds (%v), want %v", resolution, got, err, want)
		}
	}
	for state, want := range map[v1alpha1.State]float64{v1alpha1.StateComplete: 7, v1alpha1.StateFailed: 2} {
		got, err := testutil.GetHistogramMetricValue(phaseDuration.WithLabelValues("KubeOps", string(state)))
		if err != nil || got != want {
			t.Errorf("phases, %s: %v seconds (%v), want %v", state, got, err, want)
		}
	}
}

func TestObjectMetrics(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"running": {[]metav1.Condition{condition("Progressing", "True", "Running")}, "False Running"},
		"failed":  {[]metav1.Condition{condition("Progressing", "False", "PhaseFailed"), condition("Failed", "True", "PhaseFailed")}, "False PhaseFailed"},
		"ended":   {[]metav1.Condition{condition("Progressing", "False", "Completed"), condition("Complete", "True", "Completed")}, "True Completed"},
	} {
		counted := countedAs(&v1alpha1.ActionSet{Status: &v1alpha1.ActionSetStatus{Conditions: test.conditions}})
		if len(counted) != 1 || counted[0].Type != "Ready" || string(counted[0].Status)+" "+counted[0].Reason != test.want {
			t.Errorf("%s: %v", name, counted)
		}
	}
	if counted := countedAs(&v1alpha1.ActionSet{}); counted != nil {
		t.Errorf("new: %v", counted)
	}
}
