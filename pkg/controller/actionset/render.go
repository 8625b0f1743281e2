// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// inTurn renders templates when it is their turn. The error is a *phase.Failure where they cannot be rendered; that rendering was stopped,
// or had to wait too long, says nothing of them.
func inTurn[T any](b *blueprint.Budget, render func() (T, error)) (rendered T, _ error) {
	done, err := b.Turn()
	if err != nil {
		return rendered, err
	}
	defer done()
	rendered, err = render()
	if stopped := b.Stopped(); err != nil && stopped != nil {
		return rendered, stopped
	}
	if err != nil {
		return rendered, phase.Failf("%v", err)
	}
	return rendered, nil
}

// args of a phase that begins.
func (s *syncer) args(ctx context.Context, a preparePhase, f inputs) (map[string]any, error) {
	b := blueprint.NewBudget(ctx)
	return inTurn(b, func() (map[string]any, error) { return renderArgs(b, a.snapshot, a.key, a.status, f) })
}
