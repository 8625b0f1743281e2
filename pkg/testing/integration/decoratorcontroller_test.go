// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/patience"
)

func TestDecoratorAddsToTarget(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneAttachment(call).(tree)
		answer["labels"], answer["annotations"] = tree{"size": "large"}, tree{"example.com/note": "any text: 1"}
		answer["status"] = tree{"seen": len(call.Attachments["ConfigMap.v1"])}
		return answer
	})
	dc := e.decorates(widgets)
	target := e.parent("web", "{spec: {who: World}, metadata: {labels: {theirs: a}, annotations: {theirs: b}}}")
	attachment := e.awaitChild("ConfigMap", "web", has("World", "data", "who"), attachedTo(target, e.name))
	e.awaitChild(widget, "web", has("large", "metadata", "labels", "size"), has("any text: 1", "metadata", "annotations", "example.com/note"),
		has("a", "metadata", "labels", "theirs"), has("b", "metadata", "annotations", "theirs"),
		has(map[string]any{"seen": 1}, "status"), has(map[string]any{"who": "World"}, "spec"), finalizers())
	e.awaitEventOn(target, "ChildrenCreated", "Created ConfigMap "+e.namespace+"/web")

	e.change(widget, "web", "{spec: {who: You}}")
	e.awaitChild("ConfigMap", "web", has("You", "data", "who"), func(now *unstructured.Unstructured) string {
		if now.GetUID() != attachment.GetUID() {
			t.Fatal("the attachment was created again")
		}
		return ""
	})
	e.awaitEventOn(target, "ChildrenUpdated", "Updated ConfigMap")
	// What another client changes is repaired.
	e.remove("ConfigMap", "web")
	e.awaitChild("ConfigMap", "web", has("You", "data", "who"), attachedTo(target, e.name))
	e.change(widget, "web", "{metadata: {labels: {size: small}}}")
	e.awaitChild(widget, "web", has("large", "metadata", "labels", "size"))

	e.hook.Says(tree{"labels": tree{"size": nil}})
	e.change(widget, "web", "{spec: {who: None}}")
	e.awaitGone("ConfigMap", "web")
	e.awaitEventOn(target, "ChildrenDeleted", "Deleted ConfigMap")
	e.awaitChild(widget, "web", has(nil, "metadata", "labels", "size"), has("any text: 1", "metadata", "annotations", "example.com/note"))
	e.awaitDecorator(v1alpha1.ReasonServing)
	for _, reason := range []string{"Starting", "Started"} {
		e.awaitEventOn(dc, reason, e.name)
	}
}

func TestDecoratorAttachmentsGoWithTarget(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(oneAttachment)
	e.decorates(widgets)
	e.parent("web")
	e.awaitChild("ConfigMap", "web")
	e.remove(widget, "web")
	e.awaitGone("ConfigMap", "web")
}

func TestDecoratorKubectlColumns(t *testing.T) {
	e := decorating(t)
	e.decorates(strings.NewReplacer("resources: [", "resources: [{apiVersion: v1, resource: pods}, {apiVersion: v1, resource: pods}, ",
		"attachments: [", "attachments: [{apiVersion: v1, resource: services}, ").Replace(widgets))
	e.awaitDecorator(v1alpha1.ReasonServing)
	lines := strings.Split(strings.TrimSpace(e.kubectl("get", "dec", e.name)), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME RESOURCES ATTACHMENTS READY AGE" {
		t.Errorf("got columns %s", got)
	}
	if fields := strings.Fields(lines[1]); len(fields) != 5 || fields[1] != "pods,widgets" || fields[2] != "services,configmaps" || fields[3] != "True" {
		t.Errorf("got row %q, want the resources, the attachments and True", lines[1])
	}
	if got := e.kubectl("wait", "--for=condition=Ready", patience.Timeout, "decorators/"+e.name); !strings.Contains(got, "condition met") {
		t.Errorf("kubectl wait: got %s, want the condition met", got)
	}
}
