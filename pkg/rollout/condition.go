// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"errors"
	"fmt"
	"slices"
)

// ConditionUpdated is the type of the condition of a parent that reports a rolling update.
const ConditionUpdated = "Updated"

// The reasons of the condition Updated.
const (
	ReasonWaiting     = "RolloutWaiting"
	ReasonProgressing = "RolloutProgressing"
	ReasonOnLatest    = "OnLatestRevision"
)

// Condition returns the condition Updated, with the fields that Metacontroller writes.
func (s *State) Condition() map[string]any {
	status, reason, message := "True", ReasonOnLatest, "latest ControllerRevision: "+s.Latest
	switch {
	case s.Moved != nil:
		status, reason, message = "False", ReasonProgressing, fmt.Sprintf("updating %s", s.Moved)
	case s.Waiting != "":
		status, reason, message = "False", ReasonWaiting, "waiting: "+s.Waiting
	}
	return map[string]any{
		"type":    ConditionUpdated,
		"status":  status,
		"reason":  reason,
		"message": fmt.Sprintf("%d of %d children have the latest revision; %s", s.OnLatest, s.All, message),
	}
}

// errConditions is the error of a status that can have no condition.
var errConditions = errors.New("status.conditions is not a list, so that the condition Updated of the rolling update has no place in it")

// SetCondition sets the condition Updated in a status, in place of one that is there.
func (s *State) SetCondition(status map[string]any) error {
	conditions, ok := status["conditions"].([]any)
	if !ok && status["conditions"] != nil {
		return errConditions
	}
	isUpdated := func(condition any) bool {
		fields, ok := condition.(map[string]any)
		return ok && fields["type"] == ConditionUpdated
	}
	at := slices.IndexFunc(conditions, isUpdated)
	conditions = slices.DeleteFunc(slices.Clone(conditions), isUpdated)
	if at < 0 {
		at = len(conditions)
	}
	status["conditions"] = slices.Insert(conditions, at, any(s.Condition()))
	return nil
}
