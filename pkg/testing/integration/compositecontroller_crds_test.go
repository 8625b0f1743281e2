// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// definition creates a CustomResourceDefinition in a group of the test.
func (e *engineEnv) definition(kind, plural, subresources string) *unstructured.Unstructured {
	e.Helper()
	group := e.name + ".example.com"
	crd := e.put(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec:
  group: %s
  names: {kind: %s, plural: %s}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, subresources: %s, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, plural, group, group, kind, plural, subresources)
	e.cleanUp(definitions, crd.GetName())
	return crd
}

const definitions = "CustomResourceDefinition.apiextensions.k8s.io/v1"

func TestCompositeCRDInstalledLater(t *testing.T) {
	e := inSharedEngine(t)
	group := e.name + ".example.com"
	e.grantEngine(append(rightsOnParents(group, "gizmos"), rightsOnChildren(group, "parts")...)...)
	e.hook.Answers(func(call *hookCall) any {
		return tree{"children": list{object(t, "{apiVersion: %s/v1, kind: Part, metadata: {name: web}}", group).Object}}
	})
	cc := e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
childResources: [{apiVersion: ` + group + `/v1, resource: parts}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	e.awaitReason(v1alpha1.ReasonParentNotServed)
	e.definition("Gizmo", "gizmos", "{}")
	e.awaitReason(v1alpha1.ReasonStatusSubresourceMissing)
	event := e.awaitEventOn(cc, "SyncError", "does not have subresource 'Status' enabled")
	if event.Type != "Warning" {
		t.Errorf("got event %+v, want a Warning", event)
	}
	crd := e.look(definitions, "gizmos."+group)
	versions := crd.Object["spec"].(map[string]any)["versions"].([]any)
	versions[0].(map[string]any)["subresources"] = map[string]any{"status": map[string]any{}}
	if _, err := e.at(definitions).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitReason(v1alpha1.ReasonChildNotServed)
	e.definition("Part", "parts", "{}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: web}}", group)
	e.awaitChild("Part."+group+"/v1", "web")

	// The definition of the children is deleted, and the children with it. After it is installed again the engine creates them.
	e.remove(definitions, "parts."+group)
	e.awaitReason(v1alpha1.ReasonChildNotServed)
	e.awaitGone(definitions, "parts."+group)
	e.definition("Part", "parts", "{}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild("Part."+group+"/v1", "web")
}

func TestCompositeDeleteAfterParentCRD(t *testing.T) {
	e := inSharedEngine(t)
	group := e.name + ".example.com"
	e.grantEngine(rightsOnParents(group, "gizmos")...)
	e.definition("Gizmo", "gizmos", "{status: {}}")
	e.hook.Says(tree{"finalized": true})
	e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
hooks: {sync: {webhook: {url: HOOK/sync}}, finalize: {webhook: {url: HOOK/finalize}}}
`)
	e.awaitReason(v1alpha1.ReasonServing)
	e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: web}}", group)
	e.awaitChild("Gizmo."+group+"/v1", "web", finalizers(e.finalizer()))
	// Its instances are deleted with it: they are finalized.
	e.remove(definitions, "gizmos."+group)
	e.awaitGone(definitions, "gizmos."+group)
	e.awaitReason(v1alpha1.ReasonParentNotServed)
	e.remove(composite, e.name)
	e.awaitGone(composite, e.name)
}

// missingRule matches the rule in the message of the condition.
var missingRule = regexp.MustCompile(
	`label millwright.dev/aggregate-to-engine=true and the rule apiGroups: \["(.*)"\], resources: \["(.*)"\], verbs: \[(.*)\]$`)

func TestCompositeMissingRights(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	group := e.name + ".example.com"
	for _, resource := range []string{"gizmos", "parts"} {
		requests[engine].expectForbidden(schema.GroupResource{Group: group, Resource: resource})
	}
	e.definition("Gizmo", "gizmos", "{status: {}}")
	e.definition("Part", "parts", "{}")
	e.hook.Answers(func(call *hookCall) any {
		return tree{"status": tree{"seen": len(call.Children["Part."+group+"/v1"])},
			"children": list{object(t, "{apiVersion: %s/v1, kind: Part, metadata: {name: web}}", group).Object}}
	})
	e.run(&faultproxy.Journal{})
	e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
childResources: [{apiVersion: ` + group + `/v1, resource: parts}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: web}}", group)
	var messages []string
	for {
		var message string
		e.eventually(func() string {
			for _, condition := range e.controller(e.name).Status.Conditions {
				message = condition.Message
				isNew := len(messages) == 0 || messages[len(messages)-1] != message
				if condition.Reason == v1alpha1.ReasonForbidden && isNew || condition.Reason == v1alpha1.ReasonServing && e.seen(group) == 1 {
					return ""
				}
			}
			return "the condition Ready has not changed: " + message
		})
		rule := missingRule.FindStringSubmatch(message)
		if rule == nil {
			break
		}
		messages = append(messages, message)
		if len(messages) > 12 {
			t.Fatalf("the engine still misses rights: %s", strings.Join(messages, "\n"))
		}
		// The user grants the rule that the message names.
		e.grantEngine(rbacv1.PolicyRule{APIGroups: []string{rule[1]}, Resources: []string{rule[2]}, Verbs: strings.Split(rule[3], ", ")})
		// The engine tries again within a minute. An edit of the parent makes it try immediately.
		e.change("Gizmo."+group+"/v1", "web", fmt.Sprintf("{metadata: {annotations: {rights: '%d'}}}", len(messages)))
	}
	t.Logf("messages:\n%s", strings.Join(messages, "\n"))
	if len(messages) < 2 {
		t.Error("got fewer than 2 messages: nothing was forbidden")
	}
	e.awaitChild("Part."+group+"/v1", "web")
	e.awaitReason(v1alpha1.ReasonServing)
}

// seen returns the field seen in the status of the Gizmo web.
func (e *engineEnv) seen(group string) any {
	o := e.look("Gizmo."+group+"/v1", "web")
	status, _ := o.Object["status"].(map[string]any)
	if seen, ok := status["seen"].(int64); ok {
		return int(seen)
	}
	return nil
}
