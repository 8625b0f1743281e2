// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// reasonsWithoutPhase are those of failures that no phase has caused.
var reasonsWithoutPhase = []string{
	v1alpha1.ReasonCancelRequested, v1alpha1.ReasonDeleted, v1alpha1.ReasonArtifactsFailed, v1alpha1.ReasonRunLost, v1alpha1.ReasonStatusTooLarge,
}

// failureMessage returns the message of the conditions about the last failure: the phases that have failed, and the message of the error, which
// is of the last of them. The error itself has the texts of Kanister, which do not name the phase, and take an exit code for a timeout.
func failureMessage(status *v1alpha1.ActionSetStatus, reason string) string {
	message := strings.Replace(status.Error.Message, phase.PodNotComplete, "", 1)
	failed := failedPhases(status)
	if len(failed) == 0 || slices.Contains(reasonsWithoutPhase, reason) {
		return message
	}
	return shorten(strings.Join(failed, ", ")+": "+message, maxMessage)
}

// failedPhases describes the phases that have failed, in the order of their ends.
func failedPhases(status *v1alpha1.ActionSetStatus) (described []string) {
	type failure struct {
		text string
		at   time.Time
	}
	var failures []failure
	add := func(key phaseKey) {
		p := phaseIn(status, key)
		if p.State != v1alpha1.StateFailed {
			return
		}
		f := failure{text: describePhase(status, key) + " failed"}
		if p.CompletionTime != nil {
			f.at = p.CompletionTime.Time
		}
		failures = append(failures, f)
	}
	for i := range status.Actions {
		for p := range status.Actions[i].Phases {
			add(phaseKey{i, p})
		}
		add(phaseKey{i, phase.Deferred})
	}
	slices.SortStableFunc(failures, func(a, b failure) int { return a.at.Compare(b.at) })
	for _, f := range failures {
		described = append(described, f.text)
	}
	return described
}

// describePhase returns the kind and the name of a phase, which are unique among the phases.
func describePhase(status *v1alpha1.ActionSetStatus, key phaseKey) string {
	kind := "phase"
	if key.phase == phase.Deferred {
		kind = "deferPhase"
	}
	name := phaseIn(status, key).Name
	if len(status.Actions) > 1 {
		return fmt.Sprintf("%s %s of actions[%d]", kind, name, key.action)
	}
	return kind + " " + name
}
