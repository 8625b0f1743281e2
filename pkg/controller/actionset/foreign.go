// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// foreignMessage is the failure of a run that another controller has started.
const foreignMessage = "The run was started by another controller: what it has done is not known, and nothing of it is executed here. " +
	"See what was done, and create another ActionSet if it is to run again"

// isOurs reports whether this controller has written the status: every run that it starts or ends has one of these times. Kanister
// writes neither.
func isOurs(status *v1alpha1.ActionSetStatus) bool { return hasStarted(status) || hasFinished(status) }

// foreignEnded reports whether another controller has ended the run. Such an ActionSet is a record and is never changed.
func foreignEnded(status *v1alpha1.ActionSetStatus) bool {
	return status != nil && !isOurs(status) && (status.State == v1alpha1.StateComplete || status.State == v1alpha1.StateFailed)
}

// foreignStarted reports whether another controller has started the run, or may have started it.
func foreignStarted(status *v1alpha1.ActionSetStatus) bool {
	return status != nil && !isOurs(status) && !foreignEnded(status) && !untouched(status)
}

// untouched reports whether nothing was started according to a status.
func untouched(status *v1alpha1.ActionSetStatus) bool {
	waits := func(state v1alpha1.State) bool { return state == "" || state == v1alpha1.StatePending }
	if !waits(status.State) {
		return false
	}
	for i := range status.Actions {
		for p := phase.Deferred; p < len(status.Actions[i].Phases); p++ {
			if !waits(phaseIn(status, phaseKey{i, p}).State) {
				return false
			}
		}
	}
	return true
}

// decideForeign ends a run that another controller has started. Nothing of it is executed, not even a deferPhase.
func decideForeign(o observed) plan {
	t := newPlanner(o, nil, *o.set.Status.DeepCopy())
	if o.statusTooLarge != "" {
		t.status = reducedStatus(o.set.Status)
	}
	t.failRun(foreignMessage)
	return t.plan()
}
