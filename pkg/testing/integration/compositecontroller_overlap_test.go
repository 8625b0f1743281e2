// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// servesToo creates a second CompositeController of the test. It is younger than the first.
func (e *engineEnv) servesToo(spec string) (name string) {
	e.Helper()
	cc := e.composite(e.name+"-2", spec)
	if _, err := e.at(composite).Create(e.Context(), cc, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.cleanUp(composite, cc.GetName())
	return cc.GetName()
}

// eachItsOwn wants a ConfigMap and a status that are named after the path of the call.
func eachItsOwn(call *hookCall) any {
	name := strings.TrimPrefix(call.path, "/")
	child := tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": call.name() + "-" + name}, "data": tree{"who": call.spec("who")}}
	return tree{"status": tree{"by": name}, "children": list{child}}
}

func TestCompositeOverlapSameChildren(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(eachItsOwn)
	var first faultproxy.Journal
	stop := e.run(&first)
	e.serves(configMaps)
	older := e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web-sync", ownedBy(older))
	younger := e.servesToo(strings.Replace(configMaps, "/sync", "/other", 1))
	message := e.awaitReasonOf(younger, v1alpha1.ReasonParentsOverlap)
	if !strings.Contains(message, e.name+",") || !strings.Contains(message, "configmaps") {
		t.Errorf("message of the younger CompositeController: got %q, want the reason of the overlap", message)
	}
	e.awaitReason(v1alpha1.ReasonServing)
	for _, who := range []string{"you", "them", "us"} {
		e.change(widget, "web", "{spec: {who: "+who+"}}")
		e.awaitChild("ConfigMap", "web-sync", has(who, "data", "who"))
	}
	stop()
	// Another process decides in the same way.
	var second faultproxy.Journal
	e.run(&second)
	e.change(widget, "web", "{spec: {who: all}}")
	e.awaitChild("ConfigMap", "web-sync", has("all", "data", "who"))
	e.awaitChild(widget, "web", has("sync", "status", "by"), has(5, "status", "observedGeneration"))
	e.awaitReasonOf(younger, v1alpha1.ReasonParentsOverlap)
	before, after := writesOf(&first, e.namespace), writesOf(&second, e.namespace)
	if before["create configmaps"] != 1 || before["delete configmaps"]+after["delete configmaps"]+after["create configmaps"] > 0 {
		t.Errorf("got writes %v and %v of the engines, want one creation", before, after)
	}
	if calls := len(e.hook.CallsOf("/other")); calls > 0 {
		t.Errorf("got %d calls of the hook of the younger CompositeController, want none", calls)
	}
	// The older one selects the parents no more.
	e.change(composite, e.name, "{spec: {parentResource: {labelSelector: {matchLabels: {on: \"yes\"}}}}}")
	e.awaitReasonOf(younger, v1alpha1.ReasonServing)
	e.awaitChild("ConfigMap", "web-other", ownedBy(older))
	e.awaitGone("ConfigMap", "web-sync")
	// It selects them again, and then is deleted.
	e.change(composite, e.name, "{spec: {parentResource: {labelSelector: {matchLabels: {on: null}}}}}")
	e.awaitReasonOf(younger, v1alpha1.ReasonParentsOverlap)
	e.awaitChild("ConfigMap", "web-sync", ownedBy(older))
	e.remove(composite, e.name)
	e.awaitReasonOf(younger, v1alpha1.ReasonServing)
	e.awaitChild("ConfigMap", "web-other", ownedBy(older))
}

func TestCompositeOverlapOtherChildren(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/services" {
			child := tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"name": call.name()}, "spec": tree{"ports": list{tree{"port": 80}}}}
			return tree{"status": tree{"by": call.spec("status")}, "children": list{child}}
		}
		answer := oneConfigMap(call).(tree)
		answer["status"] = tree{"by": "older"}
		return answer
	})
	var journal faultproxy.Journal
	e.run(&journal)
	e.serves(configMaps)
	younger := e.servesToo(strings.Replace(with("InPlace", "v1", "services"), "/sync", "/services", 1))
	parent := e.parent("web", "{spec: {status: younger}}")
	e.awaitChild("ConfigMap", "web", ownedBy(parent))
	e.awaitChild("Service", "web", ownedBy(parent))
	e.awaitChild(widget, "web", has("older", "status", "by"))
	if message := e.awaitReasonOf(younger, v1alpha1.ReasonParentsOverlap); !strings.Contains(message, "status") {
		t.Errorf("message of the younger CompositeController: got %q, want the reason of the overlap", message)
	}
	// There is no overlap if both want the same status.
	e.change(widget, "web", "{spec: {status: older}}")
	e.awaitReasonOf(younger, v1alpha1.ReasonServing)
	e.awaitReason(v1alpha1.ReasonServing)
	if writes := writesOf(&journal, e.namespace)["update widgets/status"]; writes > 2 {
		t.Errorf("got %d status writes for two generations, want 2 at most", writes)
	}
}

// TestCompositeSlowNeighbour: two CompositeControllers have hooks of one host. One does not answer about more parents than calls may be under way, and the
// other one works meanwhile.
func TestCompositeSlowNeighbour(t *testing.T) {
	t.Parallel()
	const slow, quick = 100, 40
	e := newEngineEnv(t)
	e.run(&faultproxy.Journal{})
	answer := make(chan struct{})
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/slow" {
			<-answer
			return tree{"children": list{}}
		}
		return oneConfigMap(call)
	})
	defer close(answer)
	of := func(path string) string {
		spec := strings.Replace(configMaps, "/sync", path+", timeout: 1h", 1)
		selector := fmt.Sprintf("resource: widgets, labelSelector: {matchLabels: {%s: %s, path: %s}}", testLabel, e.namespace, path[1:])
		return strings.Replace(spec, "resource: widgets", selector, 1)
	}
	e.serves(of("/slow"))
	e.servesToo(of("/quick"))
	for i := range slow {
		e.parent(fmt.Sprintf("slow-%d", i), "{metadata: {labels: {path: slow}}}")
	}
	e.eventually(func() string {
		if calls := len(e.hook.CallsOf("/slow")); calls < 24 { // of 32, of which 8 are kept for the other one
			return fmt.Sprintf("%d calls of the slow hook are under way", calls)
		}
		return ""
	})
	for i := range quick {
		e.parent(fmt.Sprintf("quick-%d", i), "{metadata: {labels: {path: quick}}}")
	}
	for i := range quick {
		e.awaitChild("ConfigMap", fmt.Sprintf("quick-%d", i))
	}
	e.awaitReasonOf(e.name+"-2", v1alpha1.ReasonServing)
}
