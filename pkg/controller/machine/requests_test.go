// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

func eventOf(action clienttesting.Action) (*corev1.Event, bool) {
	create, ok := action.(clienttesting.CreateActionImpl)
	if !ok {
		return nil, false
	}
	event, ok := create.GetObject().(*corev1.Event)
	return event, ok
}

// requestText is the request in a line.
func requestText(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if event, ok := eventOf(action); ok {
			return fmt.Sprintf("event %s %s %q", event.Type, event.Reason, event.Message)
		}
		return "create " + action.GetObject().(*v1alpha1.Switch).Name
	case clienttesting.UpdateActionImpl:
		switch object := action.GetObject().(type) {
		case *v1alpha1.Machine:
			return "status of " + object.Name + ": " + describeStatus(object.Status)
		case *v1alpha1.Switch:
			if object.Status.SeenAt == nil {
				return "stamp " + object.Name + " down"
			}
			return "stamp " + object.Name + " seen " + object.Status.SeenAt.UTC().Format(time.TimeOnly)
		}
	case clienttesting.GetActionImpl:
		return "get " + action.GetResource().Resource + " " + action.GetName()
	case clienttesting.DeleteActionImpl:
		line := "delete " + action.GetName()
		if p := action.GetDeleteOptions().Preconditions; p != nil && p.UID != nil {
			line += " by UID"
		}
		return line
	case clienttesting.PatchActionImpl:
		if action.GetResource().Resource == "events" {
			return "event again " + string(action.GetPatch())
		}
		patch := decodePatch(action)
		switch {
		case patch.Metadata.OwnerReferences != nil && len(*patch.Metadata.OwnerReferences) > 0:
			return "adopt " + action.GetName()
		case patch.Metadata.OwnerReferences != nil:
			return "release " + action.GetName()
		case patch.Spec["position"] != "":
			return "flip " + action.GetName() + " " + patch.Spec["position"]
		}
		return "lever of " + action.GetName() + " " + patch.Spec["switchPosition"]
	}
	return fmt.Sprintf("%s %s", action.GetVerb(), action.GetResource().Resource)
}

type decodedPatch struct {
	Metadata patchMetadata     `json:"metadata"`
	Spec     map[string]string `json:"spec"`
}

func decodePatch(action clienttesting.PatchActionImpl) (patch decodedPatch) {
	if err := json.Unmarshal(action.GetPatch(), &patch); err != nil || action.GetPatchType() != types.MergePatchType {
		panic(fmt.Sprintf("%s %s: %v", action.GetPatchType(), action.GetPatch(), err))
	}
	return patch
}
