// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/hook"
)

// observed is what a plan is decided from. Nothing of it is changed.
type observed struct {
	// parent as the hook has seen it, except for our finalizer.
	parent   object
	selector labels.Selector
	// children that the parent owns, adopted ones included.
	children map[childKey]object
	// called is the hook that was called, answer its answer, and sum a hash of that.
	called  phase
	answer  *hook.CompositeResponse
	sum     uint64
	history history
	// statusBy is the older CompositeController that writes the status of the parent, "" if none does.
	statusBy string
	now      time.Time
}
