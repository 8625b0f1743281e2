// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"millwright.dev/pkg/testing/patience"
)

const rollingSet = `
apiVersion: example.com/v1
kind: RollingSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: "python:3", command: [python3, -c, "import time; time.sleep(100000)"], env: [{name: VERSION, value: "VALUE"}]}
`

// testRollingSet follows the guide with its sample of a rolling update: each Pod is created again when the one before is ready.
func (s *suite) testRollingSet(t *testing.T) {
	s.loadSampleImages(t)
	sample := compositeSamples + "rollingset.yaml"
	s.Kubectl(t, "apply", "-f", sample)
	t.Cleanup(func() { s.Kubectl(t, "delete", "-f", sample, "--wait=false") })
	s.Kubectl(t, "rollout", "status", "-n", "rollingset", "deployment/rollingset-controller", patience.Timeout)
	s.become(t, "", "cc/rollingset-controller", "Ready")

	ns := s.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Kubectl(t, "describe", "rollingsets,pods,controllerrevisions.metacontroller.k8s.io", "-n", ns))
		}
	})
	s.apply(t, rollingSet, "NAMESPACE", ns, "VALUE", "one")
	s.awaitRolled(t, ns, "one")
	s.apply(t, rollingSet, "NAMESPACE", ns, "VALUE", "two")
	s.awaitRolled(t, ns, "two")
	// Of the Pods that were created again, each began after the one before it in the order of the hook was ready.
	created := func(pod string) string { return s.read(t, ns, "pod/"+pod, ".metadata.creationTimestamp") }
	ready := func(pod string) string {
		return s.read(t, ns, "pod/"+pod, `.status.conditions[?(@.type=="Ready")].lastTransitionTime`)
	}
	for _, pair := range [][2]string{{"web-2", "web-1"}, {"web-1", "web-0"}} {
		if before, after := ready(pair[0]), created(pair[1]); before > after {
			t.Errorf("%s was ready at %s, and %s was created at %s already", pair[0], before, pair[1], after)
		}
	}
	if got := s.Kubectl(t, "get", "controllerrevisions.metacontroller.k8s.io", "-n", ns, "--no-headers"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "3 of 3") {
		t.Errorf("the ControllerRevisions are\n%s", got)
	}
}

// awaitRolled waits until all Pods have the value and are ready, and the parent reports that.
func (s *suite) awaitRolled(t *testing.T, ns, value string) {
	t.Helper()
	eventually(t, "all Pods have the value "+value, patience.Limit, func() bool {
		values := s.Kubectl(t, "get", "pods", "-n", ns, "-o", `jsonpath={.items[*].spec.containers[0].env[0].value}`)
		return values == strings.Join([]string{value, value, value}, " ")
	})
	eventually(t, "the parent reports that all Pods have the latest revision", patience.Limit, func() bool {
		row := s.Kubectl(t, "get", "rollingset", "web", "-n", ns, "--no-headers")
		return strings.Contains(row, "True") && strings.Contains(row, "3 of 3 children have the latest revision") &&
			s.read(t, ns, "rollingset/web", ".status.readyReplicas") == "3"
	})
}
