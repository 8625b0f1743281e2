// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/testing/patience"
)

// machine has the default pace: five seconds.
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
	switches := strings.Fields(s.Kubectl(t, "get", "switches", "-n", ns, "-o", "name"))
	s.Kubectl(t, append([]string{"patch", "-n", ns, "--type=merge", "-p", `{"spec":{"position":"up"}}`}, switches...)...)

	var flips []time.Time // from the status, so the polling interval makes no difference
	eventually(t, "all are down", patience.Limit, func() bool {
		panel, err := s.client.UselessV1alpha1().Machines(ns).Get(t.Context(), "panel", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := panel.Status.LastFlipTime
		if last != nil && (len(flips) == 0 || !last.Time.Equal(flips[len(flips)-1])) {
			flips = append(flips, last.Time)
		}
		return panel.Status.Positions == "ddd" && len(flips) == len(switches)
	})
	for i, flip := range flips {
		if since := flip.Sub(begin); since < 5*time.Second {
			t.Errorf("got flip %d after %v, want at least 5s", i+1, since)
		}
		begin = flip
	}
	contains(t, "kubectl describe", s.Kubectl(t, "describe", "-n", ns, "machine/panel"), "panel", "ddd")
}
