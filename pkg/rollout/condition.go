// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ConditionUpdated is the type of the condition of a parent that reports a rolling update.
const ConditionUpdated = "Updated"

// The reasons of the condition Updated.
const (
	ReasonWaiting     = "RolloutWaiting"
	ReasonProgressing = "RolloutProgressing"
	ReasonOnLatest    = "OnLatestRevision"
)

// condition returns the condition Updated, with the fields that Metacontroller writes, and lastTransitionTime, which the schema of many parents requires.
// That is kept from the condition before, and left out again if that has none: the schema of other parents does not have it.
func (s *State) condition(before map[string]any, now time.Time) map[string]any {
	status, reason, message := "True", ReasonOnLatest, "latest ControllerRevision: "+s.Latest
	switch {
	case s.Moved != nil:
		status, reason, message = "False", ReasonProgressing, fmt.Sprintf("updating %s", s.Moved)
	case s.Waiting != "":
		status, reason, message = "False", ReasonWaiting, "waiting: "+s.Waiting
	}
	condition := map[string]any{
		"type":    ConditionUpdated,
		"status":  status,
		"reason":  reason,
		"message": fmt.Sprintf("%d of %d children have the latest revision; %s", s.OnLatest, s.All, message),
	}
	if before["status"] != status {
		condition["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
	} else if since := before["lastTransitionTime"]; since != nil {
		condition["lastTransitionTime"] = since
	}
	return condition
}

// errConditions is the error of a status that can have no condition.
var errConditions = errors.New("status.conditions is not a list, so that the condition Updated of the rolling update has no place in it")

// SetCondition sets the condition Updated in a status, in place of one that is there. Before is the status that the parent has.
func (s *State) SetCondition(status, before map[string]any, now time.Time) error {
	conditions, ok := status["conditions"].([]any)
	if !ok && status["conditions"] != nil {
		return errConditions
	}
	at := slices.IndexFunc(conditions, isUpdated)
	conditions = slices.DeleteFunc(slices.Clone(conditions), isUpdated)
	if at < 0 {
		at = len(conditions)
	}
	var condition map[string]any
	if list, ok := before["conditions"].([]any); ok {
		if i := slices.IndexFunc(list, isUpdated); i >= 0 {
			condition = list[i].(map[string]any)
		}
	}
	status["conditions"] = slices.Insert(conditions, at, any(s.condition(condition, now)))
	return nil
}

func isUpdated(condition any) bool {
	fields, ok := condition.(map[string]any)
	return ok && fields["type"] == ConditionUpdated
}
