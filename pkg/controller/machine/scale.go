// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"cmp"
	"slices"
	"time"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// maxChanges is how many switches one sync adopts or releases, how many it deletes, and how many it stamps. The rest is left to the next sync:
// a Machine with thousands of switches must not keep a worker for as long as it takes to adopt and delete them all.
const maxChanges = 100

// upTo returns the first of the steps.
func upTo(count int, steps []controller.Step) []controller.Step {
	return steps[:max(0, min(count, len(steps)))]
}

// someOf returns some of the steps if there are more. Which ones depends on the time: those that are rejected again and again keep no others from
// their turn.
func someOf(count int, steps []controller.Step, now time.Time) []controller.Step {
	if len(steps) <= max(0, count) {
		return steps
	}
	first := int(now.UnixMilli() % int64(len(steps)))
	return upTo(count, slices.Concat(steps[first:], steps[:first]))
}

// isUnfinished reports whether changes are left to the next sync.
func isUnfinished(o *observed) bool {
	return hasClaimsLeft(o) ||
		o.progress.deletions >= maxChanges && missing(o) < 0 && !o.progress.failed.Has(stageScale) ||
		o.progress.stamps >= maxChanges && len(stamps(o)) > 0 && !o.progress.failed.Has(stageStamps)
}

// hasClaimsLeft reports whether the next sync adopts or releases more switches.
func hasClaimsLeft(o *observed) bool {
	return o.progress.claims >= maxChanges && len(claim(o)) > 0 && !o.progress.failed.Has(stageScale)
}

// claim returns the steps after which the Machine controls the switches that its selector matches, and no others.
func claim(o *observed) (steps []controller.Step) {
	for _, sw := range o.strays {
		steps = append(steps, release{sw.Name})
	}
	for _, sw := range o.orphans {
		steps = append(steps, adopt{sw.Name})
	}
	return steps
}

// missing returns how many switches have to be created; negative if there are too many.
func missing(o *observed) int {
	if o.selector == nil {
		return 0
	}
	return int(o.machine.Spec.Switches) - len(o.owned)
}

// scale returns the steps that create the switches that are missing, or delete the newest of too many.
func scale(o *observed) (steps []controller.Step) {
	count := missing(o)
	if count >= 0 {
		if count -= len(o.orphans); count <= 0 { // the next sync adopts those that are left
			return nil
		}
		return []controller.Step{createSwitches{freeNames(o.machine.UID, o.taken, count)}}
	}
	newest := slices.SortedFunc(slices.Values(o.owned), func(a, b *v1alpha1.Switch) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	for _, sw := range newest[:-count] {
		steps = append(steps, deleteSwitch{sw.Name})
	}
	return upTo(maxChanges-o.progress.deletions, steps)
}
