// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

func TestFailureMessageNamesThePhases(t *testing.T) {
	ended := func(name string, state v1alpha1.State, second int) v1alpha1.Phase {
		at := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC))
		return v1alpha1.Phase{Name: name, State: state, CompletionTime: &at}
	}
	const failed, complete = v1alpha1.StateFailed, v1alpha1.StateComplete
	one := []v1alpha1.ActionStatus{{Phases: []v1alpha1.Phase{ended("first", complete, 1), ended("second", failed, 2), {Name: "third", State: v1alpha1.StatePending}}}}
	exit := `{"pod":"kanister-job-x"}: ` + phase.PodNotComplete + "container container exited with code 3"
	for name, test := range map[string]struct {
		actions       []v1alpha1.ActionStatus
		reason, error string
		want          string
	}{
		"a phase":       {one, v1alpha1.ReasonPhaseFailed, "no", "phase second failed: no"},
		"an exit code":  {one, v1alpha1.ReasonPhaseFailed, exit, `phase second failed: {"pod":"kanister-job-x"}: container container exited with code 3`},
		"a lost result": {one, v1alpha1.ReasonControllerRestarted, "ControllerRestarted: no", "phase second failed: ControllerRestarted: no"},
		"a deferPhase too": {
			[]v1alpha1.ActionStatus{{Phases: one[0].Phases, DeferPhase: ended("cleanup", failed, 3)}},
			v1alpha1.ReasonDeferPhaseFailed, "no", "phase second failed, deferPhase cleanup failed: no",
		},
		"two actions, the error is of the first": {
			[]v1alpha1.ActionStatus{{Phases: []v1alpha1.Phase{ended("dump", failed, 9)}}, {Phases: []v1alpha1.Phase{ended("dump", failed, 5)}}},
			v1alpha1.ReasonPhaseFailed, "no", "phase dump of actions[1] failed, phase dump of actions[0] failed: no",
		},
		"a cancelled run":  {one, v1alpha1.ReasonCancelRequested, "Cancelled: spec.cancel is true", "Cancelled: spec.cancel is true"},
		"before any phase": {nil, v1alpha1.ReasonInvalid, "no", "no"},
	} {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.ActionSetStatus{Actions: test.actions, Error: v1alpha1.Error{Message: test.error}}
			if got := failureMessage(status, test.reason); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
