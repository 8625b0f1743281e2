// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// conditionPoll and maxConditionPoll are the first and the longest interval in which conditions are evaluated.
	conditionPoll, maxConditionPoll = 200 * time.Millisecond, 2 * time.Second
	// notMet is the end of the message of a failure, as in Kanister.
	notMet = "Failed to wait for the condition to be met: Context done while polling: context deadline exceeded"
)

// Wait waits until conditions on objects of any kind hold. It implements WaitV2, too, whose conditions are in another language.
type Wait struct {
	Client dynamic.Interface
	Mapper *Mapper
	// Language of the conditions.
	Language blueprint.ConditionLanguage
	Wake     func(phase.ID)

	reach   phase.Reach
	stopped stoppedCalls
	pace    *pace
}

var _ phase.Function = (*Wait)(nil)

// waitIntent has the beginning of the timeout, which is more precise than the time in the status.
type waitIntent struct {
	Since time.Time `json:"since"`
}

// Validate implements Function.
func (w *Wait) Validate(_ context.Context, call phase.Call) (map[string]any, error) {
	args, err := waitArgs(call)
	if err != nil {
		return nil, err
	}
	if len(args.Conditions.AnyOf)+len(args.Conditions.AllOf) == 0 {
		return nil, phase.Failf("conditions has neither anyOf nor allOf: there is nothing to wait for")
	}
	all := items(args.Conditions)
	if err := checkObjects(all); err != nil {
		return nil, phase.Failf("%v", err)
	}
	for _, item := range all {
		err := item.check(w.Language)
		if err == nil {
			t := item.target()
			err = w.reach.RefuseRead(call.ID.Namespace, t.resource().GroupResource(), t.Namespace, t.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	return phase.EncodeIntent(waitIntent{Since: time.Now().UTC()})
}

// Start implements Function. There is nothing to start. If the conditions are on objects that are known to be expensive, they are evaluated later.
func (w *Wait) Start(ctx context.Context, call phase.Call) (phase.Observation, error) {
	args, err := waitArgs(call)
	if err != nil {
		return phase.Ended(err)
	}
	w.pace.start(call.ID, budgets(w.pace.expensive.cost(items(args.Conditions))))
	return w.Poll(ctx, call)
}

// Poll implements Function. A cancelled call has nothing to stop. At the timeout the conditions are evaluated once more, because the last evaluation may
// have been in another process.
func (w *Wait) Poll(ctx context.Context, call phase.Call) (phase.Observation, error) {
	if call.Cancelled || w.stopped.has(call.ID) {
		w.pace.end(call.ID)
		return phase.Observation{State: phase.Stopped}, nil
	}
	var intent waitIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	args, err := waitArgs(call)
	if err != nil {
		return phase.Ended(err)
	}
	waited := time.Since(intent.Since)
	left := args.Timeout - waited
	if rest, waiting := w.pace.rest(call.ID); rest > 0 && (left > 0 || waiting == firstPoll) {
		if left > 0 {
			rest = min(rest, left)
		}
		return phase.Observation{State: phase.Running, PollAfter: rest, Waiting: waiting}, nil
	}
	ctx, reads := phase.CountReads(ctx)
	evaluation := w.newEvaluation(ctx, call.ID.Namespace)
	defer evaluation.objects.end()
	met, why, waiting := evaluation.evaluate(ctx, args.Conditions)
	switch {
	case ctx.Err() != nil:
		return phase.Observation{}, fmt.Errorf("evaluating conditions: %w", ctx.Err())
	case !met && left > 0:
		after := w.pace.polled(call.ID, evaluation.cost()+costOf(reads), pollAfter(waited, conditionPoll, maxConditionPoll), waiting)
		return phase.Observation{State: phase.Running, PollAfter: min(after, left), Waiting: waiting}, nil
	}
	w.pace.end(call.ID)
	if met {
		return phase.Observation{State: phase.Succeeded}, nil
	}
	return phase.Observation{State: phase.Failed, Message: fmt.Sprintf("%s, after %s: %s", why, args.Timeout, notMet)}, nil
}

// Cancel implements Function.
func (w *Wait) Cancel(_ context.Context, call phase.Call) error {
	w.pace.end(call.ID)
	w.stopped.add(call.ID)
	w.Wake(call.ID)
	return nil
}

func waitArgs(call phase.Call) (args blueprint.WaitArgs, err error) {
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return args, phase.Failf("%v", err)
	}
	return args, nil
}
