// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/samplehook"
)

// deploySample installs a file of manifests/samples as a user does, except that the hook runs here, and the controllers call it at that address.
// Types and roles are installed unchanged.
func (e *engineEnv) deploySample(file string) {
	e.Helper()
	address := samplehook.Start(e.T, file)
	for _, o := range samplehook.Objects(e.T, file) {
		switch o.GetKind() {
		case "CustomResourceDefinition":
			e.applySample(o)
		case "ClusterRole":
			e.applySample(o)
			e.awaitRights(typed[rbacv1.ClusterRole](e, o).Rules)
		case "CompositeController", "DecoratorController":
			// It is created last. Only its URL and the label for the test's engine are changed.
			defer e.applySample(withHooksAt(o, address, e.servedBy))
		}
	}
}

// withHooksAt makes a controller call its hooks at the address. Their paths stay the same.
func withHooksAt(controller *unstructured.Unstructured, address, servedBy string) *unstructured.Unstructured {
	controller.SetLabels(map[string]string{engineTest: servedBy})
	hooks, _, _ := unstructured.NestedMap(controller.Object, "spec", "hooks")
	for _, hook := range hooks {
		webhook := hook.(map[string]any)["webhook"].(map[string]any)
		path, _ := webhook["path"].(string)
		if url, _ := webhook["url"].(string); url != "" {
			path = url[strings.LastIndex(url, "/"):]
		}
		delete(webhook, "service")
		webhook["url"] = "http://" + address + path
	}
	controller.Object["spec"].(map[string]any)["hooks"] = hooks
	return controller
}

func (e *engineEnv) applySample(o *unstructured.Unstructured) {
	e.Helper()
	kind := kindOf(o)
	if _, err := e.at(kind).Create(e.Context(), o, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.cleanUp(kind, o.GetName())
}

// forSample returns an environment with an engine for this namespace alone, because the kinds of the samples are cluster-wide.
func forSample(t *testing.T) *engineEnv {
	e := newEngineEnv(t)
	e.run(&faultproxy.Journal{}, func(options *manager.Options) { options.Namespace = e.namespace })
	return e
}

func TestCompositeSamplePython(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("compositecontroller/hello.yaml")
	e.awaitReasonOf("hello-controller", "Serving")
	parent := e.put("{apiVersion: example.com/v1, kind: HelloWorld, metadata: {name: you}, spec: {who: you}}")
	greets := func(who string) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string {
			if pod := typed[corev1.Pod](t, o); pod.Spec.Containers[0].Command[1] != "Hello, "+who+"!" {
				return fmt.Sprintf("command of the Pod: got %v, want it to greet %s", pod.Spec.Containers[0].Command, who)
			}
			return ""
		}
	}
	first := e.awaitChild("Pod", "you", greets("you"), ownedBy(parent))
	e.awaitChild("HelloWorld.example.com/v1", "you", has(1, "status", "pods"))
	e.change("HelloWorld.example.com/v1", "you", "{spec: {who: all}}")
	second := e.awaitChild("Pod", "you", greets("all"))
	if first.GetUID() == second.GetUID() {
		t.Error("the Pod was not created again")
	}
	e.remove("Pod", "you")
	e.awaitChild("Pod", "you", greets("all"), otherThan(second.GetUID()))
	e.remove("HelloWorld.example.com/v1", "you")
	e.awaitGone("Pod", "you")
}

// otherThan checks that an object has another UID.
func otherThan(uid types.UID) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		if o.GetUID() == uid {
			return o.GetName() + " was not created again"
		}
		return ""
	}
}

func TestCompositeSampleNode(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("compositecontroller/sharedconfig.yaml")
	e.awaitReasonOf("sharedconfig-controller", "Serving")
	const kind = "SharedConfig.example.com/v1"
	parent := e.put("{apiVersion: example.com/v1, kind: SharedConfig, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, data: {a: '1', b: '2'}}}")
	first := e.awaitChild("ConfigMap", "a-copy", has(map[string]any{"a": "1", "b": "2"}, "data"), ownedBy(parent))
	e.awaitChild(kind, "a", has(1, "status", "copies"))
	e.change(kind, "a", "{spec: {data: {a: null, c: '3'}}}")
	second := e.awaitChild("ConfigMap", "a-copy", has(map[string]any{"b": "2", "c": "3"}, "data"))
	if first.GetUID() != second.GetUID() {
		t.Error("the copy was created again")
	}
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: stray, labels: {app: a}}}") // is adopted, but not wanted
	e.awaitGone("ConfigMap", "stray")
	e.remove(kind, "a")
	e.awaitGone(kind, "a")
	if e.look("ConfigMap", "a-copy") != nil {
		t.Error("the SharedConfig was deleted before its copy")
	}
}

// The test is not parallel, because other tests run the built-in controller of the kind.
func TestCompositeSampleImmortalContainer(t *testing.T) {
	e := forSample(t)
	e.grantEngine(rightsOnParents("immortalcontainers.flugel.it", "immortalcontainers")...)
	e.deploySample("compositecontroller/immortalcontainer-hook.yaml")
	e.awaitReasonOf("immortalcontainer-controller", "Serving")
	const kind = "ImmortalContainer.immortalcontainers.flugel.it/v1alpha1"
	parent := e.put("{apiVersion: immortalcontainers.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: web}, spec: {image: nginx}}")
	running := func(starts int) *unstructured.Unstructured {
		t.Helper()
		pod := e.awaitChild("Pod", "web-immortalpod", ownedBy(parent), has("Running", "status", "phase"))
		e.awaitChild(kind, "web", has(starts, "status", "startTimes"), has("web-immortalpod", "status", "currentPod"), has("Running", "status", "podPhase"))
		return pod
	}
	first := running(1)
	e.remove("Pod", "web-immortalpod")
	e.awaitChild("Pod", "web-immortalpod", otherThan(first.GetUID()))
	second := running(2)
	// A Pod that has failed is replaced too.
	e.change("Pod", "web-immortalpod", "{status: {phase: Failed}}", "status")
	e.awaitChild("Pod", "web-immortalpod", otherThan(second.GetUID()))
	running(3)
	e.remove(kind, "web")
	e.awaitGone("Pod", "web-immortalpod")
}
