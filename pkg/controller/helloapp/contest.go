// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"fmt"
	"time"

	"millwright.dev/pkg/controller"
)

// contest is what one process remembers of the repairs of one Deployment or Service, which another client may change or delete each time that
// it is restored.
type contest struct {
	// generation of the HelloApp that the rest is of: a new spec is applied immediately.
	generation int64
	// made reports whether this process has applied it, and has not deleted it since.
	made bool
	// repairs restore what was already applied for the same spec.
	repairs controller.RewriteBackoff
}

// of the spec as it is observed.
func (c contest) of(generation int64) contest {
	if c.generation != generation {
		return contest{generation: generation, made: c.made}
	}
	return c
}

// applied is what is known after an apply, and whether it is news that the next repair waits.
func (c contest) applied(isRepair bool, now time.Time) (after contest, news bool) {
	before := c.repairs.Slowed(now)
	if isRepair {
		c.repairs = c.repairs.Add(now)
	}
	c.made = true
	return c, c.repairs.Slowed(now) && !before
}

func (o *observed) deploymentContest() contest { return o.memory.deployment.of(o.app.Generation) }
func (o *observed) serviceContest() contest    { return o.memory.service.of(o.app.Generation) }

// contestedEvent is recorded together with the repair.
func contestedEvent(what, name string) controller.RecordEvent {
	return controller.WarningEvent(eventContested, "%s", contestedMessage(what, name))
}

func contestedMessage(what, name string) string {
	return fmt.Sprintf("%s %s is changed or deleted each time that it is restored: the wait before the next repair grows up to %s. "+
		"Its managedFields, or the audit log, show which client does it", what, name, controller.MaxRewriteBackoff)
}

// contestOver returns the delay until the condition Ready no longer shows the contest, 0 if it does not show it.
func (o *observed) contestOver() time.Duration {
	if repairs := o.deploymentContest().repairs; repairs.Slowed(o.now) {
		return repairs.ForgottenAfter(o.now)
	}
	return 0
}
