// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/useless/v1alpha1"
)

func writeOf(t *testing.T, resource string, object any) traffic.Request {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return traffic.Request{Verb: "update", Resource: resource, Object: "m", Code: 200, Body: body}
}

func TestTheRequestsOfAFlipAreToldApartByWhatTheyAreFor(t *testing.T) {
	status := func(flip *v1alpha1.Flip) traffic.Request {
		return writeOf(t, "machines/status", &v1alpha1.Machine{Status: v1alpha1.MachineStatus{Flip: flip}})
	}
	stamp := func(seenAt *metav1.MicroTime) traffic.Request {
		return writeOf(t, "switches/status", &v1alpha1.Switch{Status: v1alpha1.SwitchStatus{SeenAt: seenAt}})
	}
	refused := traffic.Request{Verb: "patch", Resource: "switches", Object: "m", Code: 409}
	got, err := purposesOf([]traffic.Request{
		stamp(&metav1.MicroTime{Time: time.Unix(1, 0)}), status(nil),
		status(&v1alpha1.Flip{Switch: "a"}), refused, {Verb: "patch", Resource: "switches", Object: "m", Code: 200}, {Verb: "create", Resource: "events", Object: "m", Code: 201},
		stamp(nil), status(nil),
		{Verb: "get", Resource: "switches", Object: "m", Code: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		forStamp: 1, forShow: 1, forReserve: 1, forFlip: 1, forEvents: 1, forClear: 1, forClose: 1, "refused patch switches": 1, "get switches": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as it is to be (-want +got):\n%s", diff)
	}
}

func TestARequestOfAFlipThatCannotBeReadIsNamed(t *testing.T) {
	_, err := purposesOf([]traffic.Request{{Verb: "update", Resource: "machines/status", Object: "m", Code: 200, Body: []byte("{")}})
	if err == nil || !strings.Contains(err.Error(), "update machines/status of m") {
		t.Errorf("got %v", err)
	}
}
