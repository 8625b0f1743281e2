// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// claim returns the steps after which the Machine controls the switches that its selector matches, and no others.
func claim(o *observed) (steps []controller.Step) {
	if o.selector == nil {
		return nil
	}
	for _, sw := range o.owned {
		if !o.selector.Matches(labels.Set(sw.Labels)) {
			steps = append(steps, release{sw.Name})
		}
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
	if count > 0 {
		return []controller.Step{createSwitches{freeNames(o.machine.UID, o.taken, count)}}
	}
	if count == 0 {
		return nil
	}
	newest := slices.SortedFunc(slices.Values(o.owned), func(a, b *v1alpha1.Switch) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	for _, sw := range newest[:-count] {
		steps = append(steps, deleteSwitch{sw.Name})
	}
	return steps
}
