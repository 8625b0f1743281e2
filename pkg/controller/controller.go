// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// Controller is what the manager runs.
type Controller interface {
	// Run works with the number of workers until the context ends, and returns only when all that it started has ended.
	// It is called exactly once, also when the context has already ended.
	Run(ctx context.Context, workers int)
	// Synced completes when every cache that the controller reads is filled and all initial events were handled.
	Synced() []cache.DoneChecker
	// CheckSyncs returns an error that names a sync which has been running for longer than any sync should: its worker is lost, and
	// the process unhealthy.
	CheckSyncs() error
}

// ReadinessChecker is a Controller that may be unable to sync although its caches are filled.
type ReadinessChecker interface {
	// Ready returns what keeps the controller from working, and what to do about it; nil if nothing does. It makes no request.
	Ready() error
}
