// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/testing/faultproxy"
)

// recreated is a spec: the parents are Widgets, the children of several kinds, and the update method is Recreate.
const recreated = `
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources:
- {apiVersion: v1, resource: configmaps, updateStrategy: {method: Recreate}}
- {apiVersion: v1, resource: resourcequotas, updateStrategy: {method: Recreate}}
- {apiVersion: networking.k8s.io/v1, resource: networkpolicies, updateStrategy: {method: Recreate}}
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// changedAtCreation are children that are changed when they are created: the API server sets a protocol in the first and writes 1000m as
// 1 in the second, and a policy changes the third.
var changedAtCreation = map[string]string{
	"NetworkPolicy.networking.k8s.io/v1": `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, labels: {app: web}},
  spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}`,
	"ResourceQuota": `{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {requests.cpu: 1000m, pods: 10}}}`,
	"ConfigMap":     `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {policy: ours, hook: ours}}`,
}

// changesConfigMaps installs a policy that changes the ConfigMaps of the test when they are created.
func (e *engineEnv) changesConfigMaps() {
	e.Helper()
	for _, text := range []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"policy": "theirs"}}'}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`} {
		o := object(e, "%s", strings.ReplaceAll(text, "NAME", e.namespace))
		objects := e.dynamic.Resource(o.GroupVersionKind().GroupVersion().WithResource(map[string]string{
			"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
		}[o.GetKind()]))
		if _, err := objects.Create(e.Context(), o, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() {
			if err := objects.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
				e.Error(err)
			}
		})
	}
	attempt := 0
	e.eventually(func() string {
		attempt++
		return has("theirs", "data", "policy")(e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: attempt%d}}", attempt))
	})
}

func TestCompositeRecreateNotForDefaults(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.grantEngine(rightsOnChildren("", "resourcequotas")...)
	e.changesConfigMaps()
	var children []string
	for _, child := range changedAtCreation {
		children = append(children, child)
	}
	e.hook.Wants(t, children...)
	var journal faultproxy.Journal
	stop := e.run(&journal)
	e.serves(recreated)
	parent := e.parent("web")
	first := map[string]*unstructured.Unstructured{}
	for kind := range changedAtCreation {
		first[kind] = e.awaitChild(kind, "a")
	}
	// Other clients change fields that the hook does not give, and with them the generation.
	e.change("NetworkPolicy.networking.k8s.io/v1", "a", "{spec: {podSelector: {matchLabels: {theirs: a}}}, metadata: {annotations: {theirs: a}}}")
	e.change("ConfigMap", "a", "{data: {theirs: a}}")
	e.calm()
	for i := range 3 {
		calls := len(e.hook.Calls())
		stop()
		stop = e.run(&journal)
		e.awaitCalls(calls + 1)
		e.calm()
		calls = len(e.hook.Calls())
		e.change(composite, e.name, fmt.Sprintf("{spec: {resyncPeriodSeconds: %d}}", 1000+i))
		e.awaitCalls(calls + 1)
		e.calm()
	}
	for kind := range changedAtCreation {
		if now := e.look(kind, "a"); now == nil || now.GetUID() != first[kind].GetUID() {
			t.Errorf("the %s was created again", kind)
		}
		e.awaitEventOn(parent, "ChildrenStuck", e.namespace+"/a")
	}
	for _, entry := range journal.Select(func(entry faultproxy.Entry) bool { return entry.Namespace == e.namespace && entry.Verb == "delete" }) {
		t.Errorf("got %s, want no deletion", entry)
	}

	// The engine restores fields that the hook gives.
	for kind, patch := range map[string]string{
		"NetworkPolicy.networking.k8s.io/v1": "{metadata: {labels: {app: mine}}}",
		"ResourceQuota":                      "{spec: {hard: {requests.cpu: 2}}}",
		"ConfigMap":                          "{data: {hook: mine}}",
	} {
		e.change(kind, "a", patch)
		e.awaitChild(kind, "a", func(o *unstructured.Unstructured) string {
			if o.GetUID() == first[kind].GetUID() {
				return "the " + kind + " was not created again"
			}
			return ""
		})
	}
	e.awaitChild("NetworkPolicy.networking.k8s.io/v1", "a", has("web", "metadata", "labels", "app"))
	e.awaitChild("ResourceQuota", "a", has("1", "spec", "hard", "requests.cpu"))
	e.awaitChild("ConfigMap", "a", has("ours", "data", "hook"), has("theirs", "data", "policy"))
}

func TestCompositeFieldTypeChange(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"InPlace", "Recreate", "OnDelete"} {
		t.Run("method "+method, func(t *testing.T) {
			e := inSharedEngine(t)
			e.definition("Part", "parts", "{}")
			group := e.name + ".example.com"
			kind := "Part." + group + "/v1"
			e.grantEngine(rightsOnChildren(group, "parts")...)
			part := func(spec string) string {
				return fmt.Sprintf("{apiVersion: %s/v1, kind: Part, metadata: {name: a}, spec: %s}", group, spec)
			}
			e.hook.Wants(t, part("{size: {big: true}, list: [{name: x}], same: 1}"))
			e.serves(with(method, group+"/v1", "parts"))
			parent := e.parent("web")
			before := e.awaitChild(kind, "a")
			e.hook.Wants(t, part("{size: big, list: {name: x}, same: 1}"))
			calls := len(e.hook.Calls())
			e.change(widget, "web", "{spec: {new: true}}")
			e.awaitCalls(calls + 1)
			if method == "OnDelete" {
				e.calm()
				if now := e.look(kind, "a"); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
					t.Error("the child was changed")
				}
			} else {
				after := e.awaitChild(kind, "a", has("big", "spec", "size"), has(map[string]any{"name": "x"}, "spec", "list"))
				if same := after.GetUID() == before.GetUID(); same != (method == "InPlace") {
					t.Errorf("the child has the same UID: got %v, want it only with InPlace", same)
				}
			}
			e.calm()
			if events := e.countEvents(parent, "SyncError"); events > 0 {
				t.Errorf("got %d events SyncError, want none: %v", events, e.eventsOn(parent))
			}
		})
	}
}
