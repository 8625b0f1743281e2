// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"millwright.dev/pkg/testing/patience"
)

const helloApp = `
apiVersion: apps.anupam.com/v1
kind: HelloApp
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  size: SIZE
  image: "IMAGE"
  port: 8080
`

func (s *suite) testHelloApp(t *testing.T) {
	ns := s.Namespace(t)
	s.apply(t, helloApp, "NAMESPACE", ns, "NAME", "hello", "SIZE", "1", "IMAGE", app1)
	s.become(t, ns, "ha/hello", "Ready")
	address := s.Kubectl(t, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].status.podIP}")
	for _, host := range []string{address, "hello", "hello." + ns + ".svc.cluster.local"} {
		code, body := s.get(t, ns, "default", "http://"+host+":8080/")
		if code != "200" || !strings.HasPrefix(body, "version 1 in hello-") {
			t.Errorf("got status code %s and %q from %s, want 200 and version 1", code, body, host)
		}
	}

	s.Kubectl(t, "scale", "-n", ns, "ha/hello", "--replicas=3")
	s.Kubectl(t, "wait", "-n", ns, "ha/hello", "--for=jsonpath={.status.readyReplicas}=3", patience.Timeout)
	s.become(t, ns, "ha/hello", "Ready")
	eventually(t, "the Service has three ready endpoints", patience.Limit, func() bool {
		endpoints := s.Kubectl(t, "get", "endpointslices", "-n", ns, "-l", "kubernetes.io/service-name=hello", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		return endpoints == "true true true"
	})

	s.Kubectl(t, "patch", "-n", ns, "ha/hello", "--type=merge", "-p", `{"spec":{"image":"`+app2+`"}}`)
	eventually(t, "the Deployment has the image", patience.Limit, func() bool {
		return s.read(t, ns, "deployment/hello", ".spec.template.spec.containers[0].image") == app2
	})
	s.Kubectl(t, "rollout", "status", "-n", ns, "deployment/hello", patience.Timeout)
	s.become(t, ns, "ha/hello", "Ready")
	if code, body := s.get(t, ns, "default", "http://hello:8080/"); code != "200" || !strings.HasPrefix(body, "version 2 in hello-") {
		t.Errorf("got status code %s and %q after the rollout, want 200 and version 2", code, body)
	}
	contains(t, "kubectl describe", s.Kubectl(t, "describe", "-n", ns, "ha/hello"), "Created Deployment hello", "Scaled from 1 to 3", "Updated the image")
}
