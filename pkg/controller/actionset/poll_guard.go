// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"strings"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// A process that continues a running phase of another one renders its arguments, and polls it. That is recorded, too: the field startedBy of a running phase
// lists the process that has started the phase, and after it the processes that were about to poll the phase for the first time. A process removes itself
// when it has done that.

// mayPoll reports whether a running phase may be polled now. If not, it adds this process to the status, which has to be written first, unless the phase waits.
func (t *planner) mayPoll(key phaseKey) bool {
	switch p := phaseIn(&t.status, key); {
	case t.isAside(key):
		return false
	case starter(p) == t.o.executor, t.o.continued.Has(key):
		return true
	}
	return t.mayTry(key) && t.recorded(key, continuedBy)
}

// pollLost returns why a running phase is no longer polled; "" if it is.
func (t *planner) pollLost(key phaseKey) string {
	processes := t.ended(key, continuedBy)
	if processes == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d processes of the controller have ended while they observed the phase: what it renders or reads may take more memory than there is",
		v1alpha1.ReasonRenderLost, processes)
}

// starter returns the process that has started a running phase.
func starter(p *v1alpha1.Phase) string {
	first, _, _ := strings.Cut(p.StartedBy, ",")
	return first
}

// continuedBy returns the processes that were about to poll a running phase for the first time.
func continuedBy(p *v1alpha1.Phase) []string {
	if p == nil || p.State != v1alpha1.StateRunning {
		return nil
	}
	return strings.Split(p.StartedBy, ",")[1:]
}
