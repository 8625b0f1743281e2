// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machine has the pace that the API gives to those who say nothing: five seconds.
const machine = `
apiVersion: useless.container.training/v1alpha1
kind: Machine
metadata: {name: NAME, namespace: NAMESPACE}
spec: {switches: 3}
`

func (s *suite) testMachine(t *testing.T) {
	ns := s.Namespace(t)
	s.apply(t, machine, "NAMESPACE", ns, "NAME", "panel")
	s.become(t, ns, "machine/panel", "Ready")
	begin := time.Now()
	s.Kubectl(t, "patch", "-n", ns, "--type=merge", "-p", `{"spec":{"position":"up"}}`,
		strings.Fields(s.Kubectl(t, "get", "switches", "-n", ns, "-o", "name"))[0])
	for _, name := range strings.Fields(s.Kubectl(t, "get", "switches", "-n", ns, "-o", "name"))[1:] {
		s.Kubectl(t, "patch", "-n", ns, "--type=merge", "-p", `{"spec":{"position":"up"}}`, name)
	}

	// The times at which fewer are up than before.
	var flips []time.Time
	up := 3
	eventually(t, "all are down", patience, func() bool {
		switches, err := s.client.UselessV1alpha1().Switches(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now := 0
		for i := range switches.Items {
			if switches.Items[i].Spec.Position == "up" {
				now++
			}
		}
		if now < up-1 {
			t.Errorf("%d switches came down at once", up-now)
		}
		for ; up > now; up-- {
			flips = append(flips, time.Now())
		}
		return up == 0
	})
	const tolerance = time.Second // of looking, on a busy machine
	for i, flip := range flips {
		if since := flip.Sub(begin); since < 5*time.Second-tolerance {
			t.Errorf("flip %d comes after %v", i+1, since)
		}
		begin = flip
	}
	contains(t, "kubectl describe", s.Kubectl(t, "describe", "-n", ns, "machine/panel"), "panel", "ddd")
}
