// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// TestCustomizeNarrowRights: Roles for names and for namespaces are enough for related objects, however many of them rules name.
func TestCustomizeNarrowRights(t *testing.T) {
	const names = 24 // more than are watched one by one where a wider watch is allowed
	e := decorating(t)
	group := e.name + ".example.com"
	e.definition("Gadget", "gadgets", "{}")
	requests[engine].expectForbidden(schema.GroupResource{Group: group, Resource: "gadgets"})
	gadgets := e.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"})
	gadget := func(namespace, name, size string) {
		t.Helper()
		o := object(t, "{apiVersion: %s/v1, kind: Gadget, metadata: {name: %s, labels: {app: x}}, spec: {size: %q}}", group, name, size)
		if _, err := gadgets.Namespace(namespace).Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"list", "watch"}}
	others := []string{e.cluster.Namespace(t), e.cluster.Namespace(t)}
	for _, namespace := range others {
		gadget(namespace, "shared", "1")
		e.grantEngineIn(namespace, rule)
	}
	name := func(i int) string { return fmt.Sprint("g", i) }
	for i := range names {
		gadget(e.namespace, name(i), "1")
		rule.ResourceNames = append(rule.ResourceNames, name(i))
	}
	e.grantEngineIn(e.namespace, rule)
	e.hook.Answers(func(call *hookCall) any {
		if call.path != "/customize" {
			return tree{}
		}
		related := tree{"apiVersion": group + "/v1", "resource": "gadgets", "namespace": e.namespace, "names": list{call.name()}}
		for _, namespace := range others {
			if call.name() == namespace {
				related = tree{"apiVersion": group + "/v1", "resource": "gadgets", "namespace": namespace, "labelSelector": tree{"matchLabels": tree{"app": "x"}}}
			}
		}
		return tree{"relatedResources": list{related}}
	})
	e.decorates(customized("v2"))
	for i := range names {
		e.parent(name(i))
	}
	for _, namespace := range others {
		e.parent(namespace)
	}
	wantAll := func() {
		t.Helper()
		for i := range names {
			e.awaitRelated(name(i), fmt.Sprintf("Gadget.%s/v1 %s/%s", group, e.namespace, name(i)))
		}
		for _, namespace := range others {
			e.awaitRelated(namespace, fmt.Sprintf("Gadget.%s/v1 %s/shared", group, namespace))
		}
		e.awaitDecorator(v1alpha1.ReasonServing)
	}
	wantAll()
	for namespace, changed := range map[string]string{e.namespace: name(names - 1), others[0]: "shared", others[1]: "shared"} {
		e.calm()
		before := len(e.hook.CallsOf("/sync"))
		gadget(namespace, changed, "2")
		e.eventually(func() string {
			for _, call := range e.hook.CallsOf("/sync")[before:] {
				for _, object := range call.Related["Gadget."+group+"/v1"] {
					if object.(tree)["spec"].(tree)["size"] == "2" {
						return ""
					}
				}
			}
			return "sync was not called with the changed Gadget " + namespace + "/" + changed
		})
	}
}
