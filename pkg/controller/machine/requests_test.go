// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// requestText is the request in a line.
func requestText(r *fakeapi.Request) string {
	switch r.Verb {
	case "create":
		return "create " + r.Object().GetName()
	case "update":
		if r.Resource == machines.GroupVersionResource {
			return "status of " + r.Name + ": " + describeStatus(fakeapi.Decode[v1alpha1.Machine](r).Status)
		}
		if seen := fakeapi.Decode[v1alpha1.Switch](r).Status.SeenAt; seen != nil {
			return "stamp " + r.Name + " seen " + seen.UTC().Format(time.TimeOnly)
		}
		return "stamp " + r.Name + " down"
	case "get":
		return "get " + r.Resource.Resource + " " + r.Name
	case "delete":
		if p := fakeapi.Decode[metav1.DeleteOptions](r).Preconditions; p != nil && p.UID != nil {
			return "delete " + r.Name + " by UID"
		}
		return "delete " + r.Name
	case "patch":
		return patchText(r)
	}
	return r.String()
}

func patchText(r *fakeapi.Request) string {
	patch := fakeapi.Decode[struct {
		Metadata patchMetadata     `json:"metadata"`
		Spec     map[string]string `json:"spec"`
	}](r)
	switch owners := patch.Metadata.OwnerReferences; {
	case owners != nil && len(*owners) > 0:
		return "adopt " + r.Name
	case owners != nil:
		return "release " + r.Name
	case patch.Spec["position"] != "":
		return "flip " + r.Name + " " + patch.Spec["position"]
	}
	return "lever of " + r.Name + " " + patch.Spec["switchPosition"]
}
