// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

func TestATemplateHasPlacesForWhatIsMadeUpAndNoOthers(t *testing.T) {
	madeUp, now := sets.New(recordedUID, "10"), map[string]string{recordedUID: liveUID, "10": "5000"}
	for name, test := range map[string]struct{ body, want string }{
		"a body":            {`{"uid":"` + recordedUID + `","resourceVersion":"10"}`, `{"uid":"` + liveUID + `","resourceVersion":"5000"}`},
		"what nobody knows": {`{"uid":"` + switchUID + `","resourceVersion":"11"}`, `{"uid":"` + switchUID + `","resourceVersion":"11"}`},
		"a URI":             {"/api/v1/namespaces/ns/secrets/actionset-run-" + recordedUID, "/api/v1/namespaces/ns/secrets/actionset-run-" + liveUID},
		// It says how long everything is.
		"protobuf": {"k8s\x00" + recordedUID + `{"resourceVersion":"10"}`, "k8s\x00" + liveUID + `{"resourceVersion":"10"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(newTemplate([]byte(test.body), madeUp).fill(now)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
