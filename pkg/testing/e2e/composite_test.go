// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"millwright.dev/pkg/testing/patience"
)

// compositeSamples is the folder with the samples of the guide.
const compositeSamples = "../../../manifests/samples/compositecontroller/"

const helloWorld = `
apiVersion: example.com/v1
kind: HelloWorld
metadata: {name: NAME, namespace: NAMESPACE}
spec: {who: "WHO"}
---
`

const sharedConfig = `
apiVersion: example.com/v1
kind: SharedConfig
metadata: {name: stays, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: stays}}
  data: {a: b}
`

// crowd is the number of parents that are created around the time when the engine is killed.
const crowd = 20

// testCompositeController follows the guide with its first sample, whose hook is a Python program.
func (s *suite) testCompositeController(t *testing.T) {
	s.loadSampleImages(t)
	sample := compositeSamples + "hello.yaml"
	s.Kubectl(t, "apply", "-f", sample)
	t.Cleanup(func() { s.Kubectl(t, "delete", "-f", sample, "--wait=false") })
	const hook = "deployment/hello-controller"
	s.Kubectl(t, "rollout", "status", "-n", "hello", hook, patience.Timeout)
	s.become(t, "", "cc/hello-controller", "Ready")

	ns := s.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Kubectl(t, "describe", "helloworlds,pods", "-n", ns))
		}
	})
	s.apply(t, helloWorld, "NAMESPACE", ns, "NAME", "greeting", "WHO", "World")
	s.awaitGreeting(t, ns, "World")
	eventually(t, "the parent has the status that the hook returns", patience.Limit, func() bool {
		return s.read(t, ns, "helloworld/greeting", ".status") == `{"observedGeneration":1,"pods":1}`
	})
	s.apply(t, helloWorld, "NAMESPACE", ns, "NAME", "greeting", "WHO", "Everybody")
	s.awaitGreeting(t, ns, "Everybody")

	uid := s.podUID(t, ns, "greeting")
	s.Kubectl(t, "delete", "pod", "-n", ns, "greeting")
	eventually(t, "the deleted Pod is replaced", patience.Limit, func() bool {
		now := s.podUID(t, ns, "greeting")
		return now != "" && now != uid
	})

	s.Kubectl(t, "delete", "pod", "-n", "hello", "--selector=app=hello-controller")
	s.apply(t, helloWorld, "NAMESPACE", ns, "NAME", "greeting", "WHO", "Survivors")
	s.awaitGreeting(t, ns, "Survivors")

	s.killEngine(t, ns)

	s.Kubectl(t, "delete", "helloworlds", "-n", ns, "--all", patience.Timeout)
	eventually(t, "the Pods are deleted with their parents", patience.Limit, func() bool {
		return s.Kubectl(t, "get", "pods", "-n", ns, "-o", "name") == ""
	})
}

// killEngine kills the leader of the engine while parents are created. In the end each parent has its Pod, and no existing Pod is replaced.
func (s *suite) killEngine(t *testing.T, ns string) {
	t.Helper()
	greeting := s.podUID(t, ns, "greeting")
	leader := s.leader(t, engine)
	var before, after strings.Builder
	for i := range crowd / 2 {
		before.WriteString(strings.Replace(helloWorld, "NAME,", fmt.Sprintf("before-%d,", i), 1))
		after.WriteString(strings.Replace(helloWorld, "NAME,", fmt.Sprintf("after-%d,", i), 1))
	}
	s.apply(t, before.String(), "NAMESPACE", ns, "WHO", "Crowd")
	s.Kubectl(t, "delete", "pod", "-n", systemNamespace, leader, "--grace-period=0", "--force")
	s.apply(t, after.String(), "NAMESPACE", ns, "WHO", "Crowd")
	eventually(t, "each parent has its Pod", 2*patience.Limit, func() bool {
		return strings.Count(s.Kubectl(t, "get", "pods", "-n", ns, "-o", "name"), "\n") == crowd+1
	})
	s.awaitOtherLeader(t, engine, leader)
	if now := s.podUID(t, ns, "greeting"); now != greeting {
		t.Errorf("got Pod greeting with the UID %s, want still %s", now, greeting)
	}
	s.Kubectl(t, "rollout", "status", "-n", systemNamespace, "deployment/"+engine, patience.Timeout)
}

// awaitGreeting waits until the Pod has printed the greeting.
func (s *suite) awaitGreeting(t *testing.T, ns, who string) {
	t.Helper()
	eventually(t, "Hello, "+who+"!", patience.Limit, func() bool {
		if s.Kubectl(t, "get", "pod", "-n", ns, "greeting", "--ignore-not-found", "-o", "jsonpath={.spec.containers[0].command[1]}") != "Hello, "+who+"!" {
			return false
		}
		return s.read(t, ns, "pod/greeting", ".status.phase") == "Succeeded" && s.Kubectl(t, "logs", "-n", ns, "greeting") == "Hello, "+who+"!\n"
	})
}

// loadSampleImages loads images with the names in the samples to the node. They have only the programs that the samples need.
func (s *suite) loadSampleImages(t *testing.T) {
	t.Helper()
	s.loadRoot(t, "python", v1.Config{}, "python:3", "busybox:1")
}
