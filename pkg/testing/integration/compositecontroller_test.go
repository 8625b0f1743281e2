// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// oneConfigMap answers with a ConfigMap that has the name of the parent.
func oneConfigMap(call *hookCall) any {
	return tree{
		"status": tree{"seen": len(call.Children["ConfigMap.v1"])},
		"children": list{tree{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": call.name()}, "data": tree{"who": call.spec("who")},
		}},
	}
}

func TestCompositeChildrenAndStatus(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	cc := e.serves(configMaps)
	parent := e.parent("web", "{spec: {who: World}}")
	child := e.awaitChild("ConfigMap", "web", has("World", "data", "who"))
	if diff := ownedBy(parent)(child); diff != "" {
		t.Errorf("owners of the child (-want +got):\n%s", diff)
	}
	if got := child.GetLabels()["controller-uid"]; got != string(parent.GetUID()) {
		t.Errorf("label controller-uid: got %q, want %q", got, parent.GetUID())
	}
	e.awaitChild(widget, "web", has(1, "status", "seen"), has(parent.GetGeneration(), "status", "observedGeneration"))
	e.awaitEventOn(parent, "ChildrenCreated", "Created ConfigMap "+e.namespace+"/web")

	e.change(widget, "web", "{spec: {who: You}}")
	e.awaitChild("ConfigMap", "web", has("You", "data", "who"), func(now *unstructured.Unstructured) string {
		if now.GetUID() != child.GetUID() {
			t.Fatal("the child was created again")
		}
		return ""
	})
	e.awaitEventOn(parent, "ChildrenUpdated", "Updated ConfigMap")
	e.hook.Says(tree{"children": nil})
	e.change(widget, "web", "{spec: {who: None}}")
	e.awaitGone("ConfigMap", "web")
	e.awaitEventOn(parent, "ChildrenDeleted", "Deleted ConfigMap")
	e.awaitReason(v1alpha1.ReasonServing)
	for _, reason := range []string{"Starting", "Started"} {
		e.awaitEventOn(cc, reason, e.name)
	}
}
