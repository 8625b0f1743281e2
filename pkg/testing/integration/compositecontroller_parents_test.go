// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestCompositeBuiltInParent(t *testing.T) {
	t.Parallel()
	t.Run("Namespace", func(t *testing.T) {
		e := inSharedEngine(t)
		e.grantEngine(rightsOnParents("", "namespaces")...)
		e.hook.Answers(func(call *hookCall) any {
			return tree{"children": list{tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "quota", "namespace": call.name()}}}}
		})
		e.change("Namespace", e.namespace, fmt.Sprintf("{metadata: {labels: {%s: %s}}}", testLabel, e.namespace))
		e.serves(strings.Replace(configMaps, "apiVersion: test.example.com/v1, resource: widgets", "apiVersion: v1, resource: namespaces", 1))
		e.awaitChild("ConfigMap", "quota", ownedBy(e.look("Namespace", e.namespace)))
		e.awaitReason(v1alpha1.ReasonServing)
	})
	t.Run("Service", func(t *testing.T) { // its load balancer belongs to another controller
		e := inSharedEngine(t)
		e.grantEngine(rightsOnParents("", "services")...)
		e.hook.Answers(oneConfigMapWithoutStatus)
		e.serves(strings.Replace(configMaps, "apiVersion: test.example.com/v1, resource: widgets", "apiVersion: v1, resource: services", 1))
		e.put("{apiVersion: v1, kind: Service, metadata: {name: web, labels: {%s: %s}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}", testLabel, e.namespace)
		e.change("Service", "web", "{status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}", "status")
		e.awaitChild("ConfigMap", "web")
		e.calm()
		shows := func(part string) func(*unstructured.Unstructured) string {
			return func(o *unstructured.Unstructured) string {
				if status := fmt.Sprint(o.Object["status"]); !strings.Contains(status, part) {
					return fmt.Sprintf("the status is %s, without %s", status, part)
				}
				return ""
			}
		}
		e.awaitChild("Service", "web", shows("ip:192.0.2.1"))
		condition := tree{"type": "Seen", "status": "True", "reason": "ByHook", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
		e.hook.Answers(func(call *hookCall) any {
			answer := oneConfigMapWithoutStatus(call).(tree)
			answer["status"] = tree{"conditions": list{condition}}
			return answer
		})
		e.change("Service", "web", "{metadata: {annotations: {a: b}}}")
		e.awaitChild("Service", "web", shows("type:Seen"), shows("ip:192.0.2.1"))
		e.awaitReason(v1alpha1.ReasonServing)
	})
	t.Run("Namespace that is being deleted", func(t *testing.T) {
		e := inSharedEngine(t)
		e.grantEngine(rightsOnParents("", "namespaces")...)
		e.hook.Answers(func(call *hookCall) any { return tree{"status": tree{"phase": "Active"}} })
		e.serves(strings.Replace(configMaps, "apiVersion: test.example.com/v1, resource: widgets", "apiVersion: v1, resource: namespaces", 1))
		dying := e.put("{apiVersion: v1, kind: Namespace, metadata: {name: %s-dying, labels: {%s: %s}, finalizers: [example.com/held]}}", e.name, testLabel, e.namespace)
		e.awaitCall(0, func(call *hookCall) bool { return call.name() == dying.GetName() })
		e.remove("Namespace", dying.GetName())
		defer func() {
			e.change("Namespace", dying.GetName(), "{metadata: {finalizers: null}}")
			e.awaitGone("Namespace", dying.GetName())
		}()
		e.awaitCall(0, func(call *hookCall) bool {
			return call.name() == dying.GetName() && call.Parent["status"].(tree)["phase"] == "Terminating"
		})
		e.calm()
		if failed := e.countEvents(dying, "SyncError"); failed > 0 {
			t.Errorf("%d events SyncError on a Namespace that is being deleted", failed)
		}
		e.awaitReason(v1alpha1.ReasonServing)
	})
	t.Run("Deployment", func(t *testing.T) {
		e := inSharedEngine(t)
		e.grantEngine(rightsOnParents("apps", "deployments")...)
		e.hook.Answers(func(call *hookCall) any {
			child := tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"name": call.name(), "labels": tree{"app": "web"}},
				"spec": tree{"selector": tree{"app": "web"}, "ports": list{tree{"port": 80}}}}
			return tree{"status": call.Parent["status"], "children": list{child}}
		})
		e.serves(`
parentResource: {apiVersion: apps/v1, resource: deployments, ignoreStatusChanges: true}
childResources: [{apiVersion: v1, resource: services, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
		parent := e.put(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {%s: %s}},
  spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}}`, testLabel, e.namespace)
		e.awaitChild("Service", "web", ownedBy(parent))
		e.awaitChild("Deployment.apps/v1", "web", has(1, "status", "availableReplicas"))
		e.remove("Deployment.apps/v1", "web")
		e.awaitGone("Service", "web")
	})
}

func oneConfigMapWithoutStatus(call *hookCall) any {
	answer := oneConfigMap(call).(tree)
	delete(answer, "status")
	return answer
}

func TestCompositeParentLabelSelector(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	selector := "{matchLabels: {" + testLabel + ": " + e.namespace + "}, matchExpressions: [{key: tier, operator: In, values: [gold, silver]}]}"
	e.serves(strings.Replace(configMaps, "resource: widgets", "resource: widgets, labelSelector: "+selector, 1))
	e.parent("gold", "{metadata: {labels: {tier: gold}}}")
	e.parent("bronze", "{metadata: {labels: {tier: bronze}}}")
	e.awaitChild("ConfigMap", "gold")
	e.change(widget, "bronze", "{metadata: {labels: {tier: silver}}}")
	e.awaitChild("ConfigMap", "bronze")
	e.change(widget, "gold", "{metadata: {labels: {tier: none}}}")
	e.change(widget, "gold", "{spec: {who: you}}")
	time.Sleep(300 * time.Millisecond)
	for _, call := range e.hook.Calls() {
		if labels := call.Parent["metadata"].(tree)["labels"].(tree); labels["tier"] != "gold" && labels["tier"] != "silver" {
			t.Errorf("the hook was called for a parent with the labels %v", labels)
		}
	}
	if e.look("ConfigMap", "gold") == nil {
		t.Error("the child of an object that is not selected any more was deleted without a finalize hook")
	}
}

func TestCompositeTwoControllersOneParent(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/services" {
			return tree{"children": list{tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"name": call.name()}, "spec": tree{"ports": list{tree{"port": 80}}}}}}
		}
		return oneConfigMapWithoutStatus(call)
	})
	e.serves(configMaps)
	second := e.composite(e.name+"-2", strings.Replace(with("InPlace", "v1", "services"), "/sync", "/services", 1))
	if _, err := e.at(composite).Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.cleanUp(composite, second.GetName())
	parent := e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web", ownedBy(parent))
	e.awaitChild("Service", "web", ownedBy(parent))
	// The failure of one hook does not affect the other CompositeController.
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/services" {
			return says(http.StatusInternalServerError, "down")
		}
		return oneConfigMap(call)
	})
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
	e.awaitReasonOf(second.GetName(), "HookFailed")
	e.awaitReason(v1alpha1.ReasonServing)
	e.remove(composite, second.GetName())
	e.change(widget, "web", "{spec: {who: them}}")
	e.awaitChild("ConfigMap", "web", has("them", "data", "who"))
	if e.look("Service", "web") == nil {
		t.Error("the child of the deleted CompositeController is gone")
	}
}

func TestCompositeParentStatus(t *testing.T) {
	e := inSharedEngine(t)
	status := tree{"text": "a", "number": 1.5, "whole": 3, "list": list{1, "b"}, "nothing": nil, "observedGeneration": 77}
	e.hook.Answers(func(call *hookCall) any { return tree{"status": status} })
	e.serves(configMaps)
	e.parent("web")
	e.change(widget, "web", "{status: {old: true}}", "status")
	want := map[string]any{"text": "a", "number": 1.5, "whole": 3, "list": []any{1, "b"}, "nothing": nil, "observedGeneration": 1}
	e.awaitChild(widget, "web", has(want, "status"))
	version := e.look(widget, "web").GetResourceVersion()
	e.calm()
	if now := e.look(widget, "web").GetResourceVersion(); now != version {
		t.Errorf("the same status was written again")
	}
	e.hook.Says(says(http.StatusOK, `{"status":null}`))
	e.change(widget, "web", "{spec: {a: b}}")
	e.awaitChild(widget, "web", has(map[string]any{"observedGeneration": 2}, "status"))
	// The engine removes a field that another client has written.
	e.change(widget, "web", "{status: {rumour: true}}", "status")
	e.awaitChild(widget, "web", has(map[string]any{"observedGeneration": 2}, "status"))
}

func TestCompositeChildChangeSyncs(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneConfigMap(call).(tree)
		for _, child := range call.Children["ConfigMap.v1"] {
			answer["status"] = tree{"note": child.(tree)["metadata"].(tree)["labels"].(tree)["note"]}
		}
		return answer
	})
	e.serves(configMaps)
	e.parent("web")
	e.awaitChild("ConfigMap", "web")
	e.change("ConfigMap", "web", "{metadata: {labels: {note: hello}}}")
	e.awaitChild(widget, "web", has("hello", "status", "note"))
}

func TestCompositeClusterScopedChildren(t *testing.T) {
	e := inSharedEngine(t)
	child := e.name + "-child"
	e.hook.Answers(func(call *hookCall) any {
		return tree{
			"status":   tree{"seen": len(call.Children["ClusterWidget.test.example.com/v1"])},
			"children": list{tree{"apiVersion": "test.example.com/v1", "kind": "ClusterWidget", "metadata": tree{"name": child}, "spec": tree{"who": call.spec("who")}}},
		}
	})
	e.serves(strings.NewReplacer(
		"widgets", "clusterwidgets", "apiVersion: v1, resource: configmaps", "apiVersion: test.example.com/v1, resource: clusterwidgets",
	).Replace(configMaps))
	parent := e.put("{apiVersion: test.example.com/v1, kind: ClusterWidget, metadata: {name: %s, labels: {%s: %s}}, spec: {who: me}}", e.name, testLabel, e.namespace)
	e.cleanUp(clusterWidget, e.name)
	e.awaitChild(clusterWidget, child, ownedBy(parent), has("me", "spec", "who"))
	e.awaitChild(clusterWidget, e.name, has(1, "status", "seen"))
	e.change(clusterWidget, e.name, "{spec: {who: you}}")
	e.awaitChild(clusterWidget, child, has("you", "spec", "who"))
	e.awaitEventOn(parent, "ChildrenUpdated", "Updated ClusterWidget "+child)
	e.cleanUp(clusterWidget, child)
}

// The names of Services are not resolved here: the error shows the URL that the engine calls.
func TestCompositeHookByService(t *testing.T) {
	t.Parallel()
	for service, address := range map[string]string{
		"{name: hook, namespace: nowhere-at-all}":                                "http://hook.nowhere-at-all:80/some/path",
		"{name: hook, namespace: nowhere-at-all, port: 8443, protocol: https}":   "https://hook.nowhere-at-all:8443/some/path",
		"{name: hook, namespace: nowhere-at-all}, url: 'http://127.0.0.1:1/url'": "http://127.0.0.1:1/url", // the URL takes precedence
	} {
		t.Run(address, func(t *testing.T) {
			e := inSharedEngine(t)
			e.serves(strings.Replace(configMaps, "url: HOOK/sync", "timeout: 2s, path: /some/path, service: "+service, 1))
			parent := e.parent("web")
			e.awaitEventOn(parent, "SyncError", `Post "`+address+`"`)
			e.awaitReason("HookUnreachable")
		})
	}
}
