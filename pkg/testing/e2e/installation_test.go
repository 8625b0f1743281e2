// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"millwright.dev/pkg/testing/patience"
)

func (s *suite) testInstallation(t *testing.T) {
	output := s.deploy(t, "deploy", millwright1)
	contains(t, "deploy", output, "successfully rolled out", "Millwright is ready")
	pods := s.Kubectl(t, "get", "pods", "-n", systemNamespace, "-o", `jsonpath={range .items[*]}{.spec.containers[0].image} {.status.phase} {.spec.serviceAccountName}{"\n"}{end}`)
	want := ""
	for _, serviceAccount := range []string{"farm-operator", actions, core, engine} {
		want += strings.Repeat(millwright1+" Running "+serviceAccount+"\n", 2)
	}
	if pods != want {
		t.Errorf("got the Pods\n%swant\n%s", pods, want)
	}
	for _, deployment := range []string{actions, core, engine} {
		eventually(t, "a replica of "+deployment+" leads", patience.Limit, func() bool { return s.leader(t, deployment) != "" })
	}
	// The namespace enforces the restricted Pod security standard.
	refusal := s.KubectlFails(t, "run", "-n", systemNamespace, "guest", "--image="+app1)
	contains(t, "kubectl run", refusal, `violates PodSecurity "restricted`)
	for _, resource := range []string{
		"immortalcontainers", "helloapps", "machines", "switches", "compositecontrollers", "decoratorcontrollers", "actionsets", "blueprints", "profiles",
		"llamas", "farmpods",
	} {
		s.Kubectl(t, "get", resource, "--all-namespaces")
		contains(t, "kubectl explain", s.Kubectl(t, "explain", resource), "KIND:", "DESCRIPTION:")
	}
}

// endless is an ActionSet whose phase ends only when it is cancelled.
const endless = `
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: endless, namespace: NAMESPACE}
actions:
  go:
    phases:
    - func: WaitV2
      name: wait
      args: {timeout: 24h, conditions: {allOf: [{condition: "false", objectReference: &self {apiVersion: v1, resource: namespaces, name: NAMESPACE}}]}}
    deferPhase:
      func: WaitV2
      name: release
      args: {timeout: 1m, conditions: {allOf: [{condition: "true", objectReference: *self}]}}
---
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {name: endless, namespace: NAMESPACE}
spec:
  actions:
  - {name: go, blueprint: endless, object: {kind: Namespace, name: NAMESPACE, namespace: NAMESPACE}}
`

// testRemoval is the last part: undeploy keeps the objects of users and what the controllers made for them.
func (s *suite) testRemoval(t *testing.T) {
	ns := s.Namespace(t)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "stays", "IMAGE", app1)
	s.apply(t, helloApp, "NAMESPACE", ns, "NAME", "stays", "SIZE", "1", "IMAGE", app1)
	s.apply(t, machine, "NAMESPACE", ns, "NAME", "stays")
	s.become(t, ns, "ic/stays", "Ready")
	s.become(t, ns, "ha/stays", "Ready")
	uids := func() string {
		return s.Kubectl(t, "get", "pods,deployments,services,immortalcontainers,helloapps,machines,switches", "-n", ns, "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`)
	}
	before := uids()
	s.Kubectl(t, "apply", "-f", compositeSamples+"sharedconfig.yaml") // its hook need not run
	s.Kubectl(t, "wait", "--for=condition=Established", patience.Timeout, "crd/sharedconfigs.example.com")
	s.apply(t, sharedConfig, "NAMESPACE", ns)
	eventually(t, "the SharedConfig has the finalizer of its CompositeController", patience.Limit, func() bool {
		return s.read(t, ns, "sharedconfig/stays", ".metadata.finalizers") == `["metacontroller.io/compositecontroller-sharedconfig-controller"]`
	})
	s.apply(t, endless, "NAMESPACE", systemNamespace)
	eventually(t, "the ActionSet waits", patience.Limit, func() bool {
		return s.read(t, systemNamespace, "actionset/endless", ".status.progress.runningPhase") == "wait"
	})

	output := s.deploy(t, "undeploy", "")
	contains(t, "undeploy", output, `"sharedconfig-controller" deleted`, "actionset.cr.kanister.io/endless patched",
		"Namespace millwright-system was kept", "The CRDs and all other objects of our kinds were kept")
	if deferred := s.read(t, systemNamespace, "actionset/endless", ".status.actions[0].deferPhase.state"); deferred != "complete" {
		t.Errorf("got the deferPhase in the state %q, want %q", deferred, "complete")
	}
	s.Kubectl(t, "delete", "-n", systemNamespace, "actionset/endless", "blueprint/endless", patience.Timeout)
	s.deploy(t, "undeploy", "") // now the namespace is empty and removed, too
	if left := s.Kubectl(t, "get", "clusterroles,clusterrolebindings", "--selector", "app.kubernetes.io/name=millwright", "-o", "name"); left != "" {
		t.Errorf("got these objects after undeploy, want none:\n%s", left)
	}
	if left := s.Kubectl(t, "get", "namespace", systemNamespace, "--ignore-not-found", "-o", "name"); left != "" {
		t.Errorf("got %s after undeploy, want it deleted", left)
	}
	if after := uids(); after != before {
		t.Errorf("got the objects\n%swant those from before undeploy\n%s", after, before)
	}
	// No controller runs any more, and no deletion waits for one.
	s.Kubectl(t, "delete", "-n", ns, "sharedconfig/stays", "ic/stays", "ha/stays", "machine/stays", patience.Timeout)
	eventually(t, "their children are deleted", patience.Limit, func() bool {
		return s.Kubectl(t, "get", "pods,deployments,switches", "-n", ns, "--ignore-not-found", "-o", "name") == ""
	})
}
