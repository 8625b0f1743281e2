// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/testing/testcluster"
)

// kubeOpsCreate returns a phase that creates an object in the namespace of the test.
func kubeOpsCreate(object string) string {
	return "  phases: [{func: KubeOps, name: make, args: {operation: create, namespace: $NS, spec: " + strconv.Quote(object) + "}}]\n"
}

// scalePhase returns a phase that scales an object, and does not wait for its Pods.
func scalePhase(kind, name string, replicas int) string {
	return fmt.Sprintf("  phases: [{func: ScaleWorkload, name: scale, args: {namespace: $NS, kind: %s, name: %s, replicas: %d, waitForReady: false}}]\n", kind, name, replicas)
}

// definitionOf returns a CustomResourceDefinition with a scale subresource, of which one version is served.
func definitionOf(kind, group, servedVersion string) string {
	plural := strings.ToLower(kind) + "s"
	text := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec:
  group: %s
  names: {kind: %s, plural: %s}
  scope: Namespaced
  versions:
`, plural, group, group, kind, plural)
	for _, version := range []string{"v1", "v2"} {
		text += fmt.Sprintf(`  - name: %s
    served: %t
    storage: %t
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, version, version == servedVersion, version == "v1")
	}
	return text
}

// awaitServed waits until discovery shows this version of a group, and no other.
func (e *actionsEnv) awaitServed(group, version string) {
	e.Helper()
	e.eventually(func() string {
		_, lists, err := e.kube.Discovery().ServerGroupsAndResourcesWithContext(e.Context())
		var served []string
		for _, list := range lists {
			if of, found := strings.CutPrefix(list.GroupVersion, group+"/"); found && len(list.APIResources) > 0 {
				served = append(served, of)
			}
		}
		if !slices.Equal(served, []string{version}) {
			return fmt.Sprintf("group %s: got versions %q (%v), want %s", group, served, err, version)
		}
		return ""
	})
}

// TestActionSetAPIGroupUnavailable has a cluster of its own: while an API group is unavailable, no namespace can be deleted.
func TestActionSetAPIGroupUnavailable(t *testing.T) {
	t.Parallel()
	const group = "gadgets.example.com"
	cluster := testcluster.Start(t, append(slices.Clone(clusterOptions), testcluster.WithKeptNamespaces())...)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindInNamespace(e.env, actions, e.account)
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"create", "get"}})
	e.kubectl("apply", "-f", e.file(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.`+group+`}
spec: {group: `+group+`, version: v1, groupPriorityMinimum: 1000, versionPriority: 15, insecureSkipTLSVerify: true, service: {namespace: default, name: none}}
`))
	e.eventually(func() string {
		_, err := e.kube.Discovery().ServerResourcesForGroupVersionWithContext(t.Context(), group+"/v1")
		if !apierrors.IsServiceUnavailable(err) {
			return fmt.Sprintf("resources of the group: got %v, want that it is unavailable", err)
		}
		return ""
	})
	e.run(nil)
	e.startRun("made", kubeOpsCreate("{apiVersion: "+group+"/v1, kind: Gadget, metadata: {name: web}}"))
	e.startRun("scaled", scalePhase("gadget", "web", 0))
	e.startRun("absent", kubeOpsCreate("{apiVersion: apps/v1, kind: Gadget, metadata: {name: web}}"))
	e.startRun("other", scalePhase("gadget.apps", "web", 0))
	for name, want := range map[string]string{
		"absent": `no matches for kind "Gadget" in version "apps/v1"`, "other": "Workload type not supported gadget.apps: the API server serves no such kind",
	} {
		if set := e.awaitEnd(name); set.Status.Error.Message != want {
			t.Errorf("ActionSet %s: got error %q, want %q", name, set.Status.Error.Message, want)
		}
	}
	e.awaitWaiting("made", "phase make waits for the API group "+group+" to be available since ")
	e.awaitWaiting("scaled", "phase scale waits for the API group "+group+" to be available since ")
	e.deleteSet("scaled")

	e.kubectl("apply", "-f", e.file(definitionOf("Gadget", group, "v1")))
	// The definition takes over the group, without a moment in which it is not served, as after the deletion of the APIService.
	e.kubectl("patch", "apiservice", "v1."+group, "--type=merge", "-p", `{"spec": {"service": null, "insecureSkipTLSVerify": false}}`)
	e.wantEnd("made", "complete make=complete; 100%")
	e.kubectl("get", "--raw", "/apis/"+group+"/v1/namespaces/"+e.namespace+"/gadgets/web")
}

// TestActionSetScaleLaterKind: kinds and versions come and go while the operator runs.
func TestActionSetScaleLaterKind(t *testing.T) {
	e := newActionsEnv(t)
	group := e.namespace + ".example.com"
	e.grantForKubeOps(
		rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"boats"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"boats/scale"}, Verbs: []string{"get", "update"}},
	)
	e.run(nil)
	e.createApp(helloApp("hello", 2))
	e.startRun("before", scalePhase("helloapp", "hello", 1))
	e.wantEnd("before", "complete scale=complete; 100%")

	e.kubectl("apply", "-f", e.file(definitionOf("Boat", group, "v1")))
	e.Cleanup(func() { e.kubectl("delete", "--wait=false", "customresourcedefinition", "boats."+group) })
	e.awaitServed(group, "v1")
	e.kubectl("apply", "-f", e.file("{apiVersion: "+group+"/v1, kind: Boat, metadata: {name: ark}, spec: {replicas: 2}}"))
	uid := e.kubectl("get", "boats."+group, "ark", "-o", "jsonpath={.metadata.uid}")
	e.createDeployment("web", false)
	e.kubectl("patch", "deployment", "web", "--type=merge", "-p", fmt.Sprintf(
		`{"metadata": {"ownerReferences": [{"apiVersion": "%s/v1", "kind": "Boat", "name": "ark", "uid": "%s", "controller": true}]}}`, group, uid))
	replicas := e.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	version := "v1"
	scales := func(name, kind, object string, count int) {
		t.Helper()
		e.startRun(name, scalePhase(kind, object, count))
		e.wantEnd(name, "complete scale=complete; 100%")
		if got := e.kubectl("get", "boats."+version+"."+group, "ark", "-o", "jsonpath={.spec.replicas}"); got != strconv.Itoa(count) {
			t.Errorf("%s: got %s replicas of the Boat, want %d", name, got, count)
		}
	}
	scales("owner", "deployment", "web", 5)
	if got := e.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"); got != replicas {
		t.Errorf("got %s replicas of the Deployment, want %s as before", got, replicas)
	}
	scales("kind", "boat", "ark", 6)
	// The garbage collector may delete the Deployment from now on: it does not find the owner in the version of the reference.
	e.kubectl("apply", "-f", e.file(definitionOf("Boat", group, "v2")))
	e.awaitServed(group, "v2")
	version = "v2"
	scales("kind-v2", "boat", "ark", 7)
}
