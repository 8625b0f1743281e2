// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestDecoratorUpdateMethods(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"OnDelete", "", "Recreate", "InPlace"} {
		t.Run("method "+method, func(t *testing.T) {
			e := decorating(t)
			e.hook.Answers(oneAttachment)
			spec := strings.Replace(widgets, "method: InPlace", "method: "+method, 1)
			if method == "" {
				spec = strings.Replace(widgets, ", updateStrategy: {method: InPlace}", "", 1)
			}
			e.decorates(spec)
			target := e.parent("web", "{spec: {who: me}}")
			before := e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
			e.change(widget, "web", "{spec: {who: you}}")
			if method == "InPlace" || method == "Recreate" {
				after := e.awaitChild("ConfigMap", "web", has("you", "data", "who"), attachedTo(target, e.name))
				if again := after.GetUID() != before.GetUID(); again != (method == "Recreate") {
					t.Errorf("the attachment was created again: got %t", again)
				}
				e.awaitEventOn(target, map[string]string{"InPlace": "ChildrenUpdated", "Recreate": "ChildrenRecreated"}[method], "web")
				return
			}
			e.awaitCall(0, func(call *hookCall) bool { return call.spec("who") == "you" })
			e.stays(500*time.Millisecond, func() string {
				if now := e.look("ConfigMap", "web"); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
					return "the attachment was changed"
				}
				return ""
			})
			e.remove("ConfigMap", "web")
			e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
		})
	}
}

// keepsAttachments answers with the attachments that the request shows, and reports their number.
func keepsAttachments(call *hookCall) any {
	kept := list{}
	for _, attachment := range call.Attachments["ConfigMap.v1"] {
		kept = append(kept, configMap(attachment.(tree)["metadata"].(tree)["name"].(string), nil))
	}
	return tree{"attachments": kept, "annotations": tree{"kept": fmt.Sprint(len(kept))}}
}

// An attachment is owned by the target, and has the annotation with the name of the DecoratorController. Nothing else is observed or changed.
func TestDecoratorAdoptsNothing(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(keepsAttachments)
	target := e.parent("web")
	put := func(name, owner, annotation string) {
		t.Helper()
		e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {%s: %s}, ownerReferences: [%s], annotations: {%s: %s}}}",
			name, testLabel, e.namespace, owner, decoratedBy, annotation)
	}
	owner := fmt.Sprintf("{apiVersion: test.example.com/v1, kind: Widget, name: web, uid: %s, controller: true}", target.GetUID())
	put("ours", owner, e.name)
	put("orphan", "", e.name)
	put("of-another", owner, "another")
	put("not-controlled", strings.Replace(owner, "controller: true", "controller: false", 1), e.name)
	e.decorates(widgets)
	e.awaitChild(widget, "web", has("1", "metadata", "annotations", "kept"))
	for _, call := range e.hook.Calls() {
		if attachments := call.Attachments["ConfigMap.v1"]; len(attachments) != 1 || attachments["ours"] == nil {
			t.Errorf("attachments in a request: got %v, want only the one that is ours", attachments)
		}
	}
	e.hook.Says(tree{})
	e.change(widget, "web", "{spec: {new: true}}")
	e.awaitGone("ConfigMap", "ours")
	e.calm()
	for _, name := range []string{"orphan", "of-another", "not-controlled"} {
		if now := e.look("ConfigMap", name); now == nil || len(now.GetManagedFields()) > 1 {
			t.Errorf("ConfigMap %s: got %v, want it unchanged", name, now)
		}
	}
}

// A hook that refers to the target itself, without being its controller, gets an attachment that is observed, updated and deleted like any other.
func TestDecoratorOwnOwnerReference(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		target := call.subject()
		metadata := target["metadata"].(tree)
		if target["spec"].(tree)["gone"] == true {
			return tree{"annotations": tree{"observed": fmt.Sprint(len(call.Attachments["ConfigMap.v1"]))}}
		}
		attachment := configMap("web", tree{"who": target["spec"].(tree)["who"]})
		attachment["metadata"].(tree)["ownerReferences"] = list{tree{
			"apiVersion": target["apiVersion"], "kind": target["kind"], "name": metadata["name"], "uid": metadata["uid"],
		}}
		return tree{"attachments": list{attachment}, "annotations": tree{"observed": fmt.Sprint(len(call.Attachments["ConfigMap.v1"]))}}
	})
	e.decorates(widgets)
	target := e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web", attachedTo(target, e.name), has("me", "data", "who"))
	e.awaitChild(widget, "web", has("1", "metadata", "annotations", "observed"))
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
	e.change(widget, "web", "{spec: {gone: true}}")
	e.awaitGone("ConfigMap", "web")
}

func TestDecoratorNameTaken(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(oneAttachment)
	foreign := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {theirs: a}}")
	e.decorates(widgets)
	target := e.parent("web", "{spec: {who: me}}")
	e.awaitEventOn(target, "ErrResourceExists", "web")
	if now := e.look("ConfigMap", "web"); now.GetResourceVersion() != foreign.GetResourceVersion() {
		t.Errorf("the object of another owner was changed: %v", now.Object)
	}
	e.remove("ConfigMap", "web")
	e.awaitChild("ConfigMap", "web", attachedTo(target, e.name), has("me", "data", "who"))
}

// Attachments are merged like children: what the hook no longer gives is removed, what others have added stays.
func TestDecoratorAttachmentMerges(t *testing.T) {
	e := decorating(t)
	e.hook.Says(tree{"attachments": list{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a, old: a}}, data: {keep: a, drop: a}}").Object}})
	e.decorates(widgets)
	target := e.parent("web")
	e.awaitChild("ConfigMap", "a")
	e.change("ConfigMap", "a", "{metadata: {labels: {theirs: b}, annotations: {theirs: b}}, data: {theirs: b}}")
	e.hook.Says(tree{"attachments": list{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a}}, data: {keep: a, new: a}}").Object}})
	e.change(widget, "web", "{spec: {new: true}}")
	after := e.awaitChild("ConfigMap", "a", has(map[string]any{"keep": "a", "new": "a", "theirs": "b"}, "data"),
		has(map[string]any{"mine": "a", "theirs": "b"}, "metadata", "labels"), has("b", "metadata", "annotations", "theirs"), attachedTo(target, e.name))
	if applied := after.GetAnnotations()["metacontroller.k8s.io/last-applied-configuration"]; !strings.Contains(applied, `"`+decoratedBy+`":"`+e.name+`"`) {
		t.Errorf("annotation last-applied-configuration: got %s, want the annotation of the decorator in it, as Metacontroller writes it", applied)
	}
}

// Attachments are applied server-side like children. The labels and annotations of their target are patched, as by the other strategy.
func TestDecoratorServerSideApply(t *testing.T) {
	e := decorating(t)
	e.grantApply("", "configmaps")
	attachment := func(text string) {
		e.hook.Says(tree{"labels": tree{"decorated": "yes"}, "attachments": list{object(t, "%s", text).Object}})
	}
	attachment("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {mine: a, old: a}}, data: {keep: a, drop: a}}")
	e.decorates(widgets + "applyStrategy: server-side-apply\n")
	target := e.parent("web")
	e.awaitChild("ConfigMap", "a", attachedTo(target, e.name))
	e.change("ConfigMap", "a", "{metadata: {annotations: {theirs: b}}, data: {theirs: b}}")
	attachment("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {mine: a}}, data: {keep: a, new: a}}")
	e.change(widget, "web", "{spec: {new: true}}")
	after := e.awaitChild("ConfigMap", "a", has(map[string]any{"keep": "a", "new": "a", "theirs": "b"}, "data"),
		has("b", "metadata", "annotations", "theirs"), has(nil, "metadata", "annotations", "old"), attachedTo(target, e.name))
	if annotations := after.GetAnnotations(); annotations[lastApplied] != "" || annotations[appliedHash] == "" {
		t.Errorf("annotations: got %v, want the hash alone", annotations)
	}
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
	attachment("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
	e.change(widget, "web", "{spec: {new: false}}")
	e.awaitGone("ConfigMap", "a")
	e.awaitChild("ConfigMap", "b", attachedTo(target, e.name))
}

func TestDecoratorManyAttachmentsOneEvent(t *testing.T) {
	e := decorating(t)
	attachments := list{}
	for i := range 40 {
		attachments = append(attachments, configMap(fmt.Sprintf("a%02d", i), nil))
	}
	e.hook.Says(tree{"attachments": attachments})
	e.decorates(widgets)
	target := e.parent("web")
	e.awaitEventOn(target, "ChildrenCreated", "Created 40 ConfigMap: ")
	for i := range 40 {
		e.awaitChild("ConfigMap", fmt.Sprintf("a%02d", i), attachedTo(target, e.name))
	}
	if events := e.eventsOn(target); len(events) != 1 {
		t.Errorf("got %d events, want 1", len(events))
	}
}

func TestDecoratorTwoOnOneTarget(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		by := strings.TrimPrefix(call.path, "/")
		answer := tree{"labels": tree{by: "here"}, "attachments": list{configMap(call.name()+"-"+by, nil)}}
		if call.Finalizing {
			answer["attachments"], answer["finalized"] = list{}, len(call.Attachments["ConfigMap.v1"]) == 0
		}
		return answer
	})
	at := func(path string) string {
		return strings.NewReplacer("/sync", path, "/finalize", path).Replace(alsoFinalized(widgets))
	}
	e.decorates(at("/one"))
	other := e.name + "-2"
	e.alsoDecorates(other, at("/two"))
	target := e.parent("web")
	e.awaitChild("ConfigMap", "web-one", attachedTo(target, e.name))
	e.awaitChild("ConfigMap", "web-two", attachedTo(target, other))
	both := func(o *unstructured.Unstructured) string {
		if got := o.GetFinalizers(); len(got) != 2 {
			return fmt.Sprintf("finalizers: got %v, want one of each DecoratorController", got)
		}
		return ""
	}
	e.awaitChild(widget, "web", has("here", "metadata", "labels", "one"), has("here", "metadata", "labels", "two"), both)
	e.awaitDecorator(v1alpha1.ReasonServing)
	e.awaitDecoratorOf(other, v1alpha1.ReasonServing)
	e.calm() // they do not fight
	for _, call := range e.hook.Calls() {
		if attachments := call.Attachments["ConfigMap.v1"]; len(attachments) > 1 || len(attachments) == 1 && attachments["web-"+call.path[1:]] == nil {
			t.Errorf("attachments in a request for %s: got %v, want only its own", call.path, attachments)
		}
	}
	// One goes, and the other stays.
	e.remove(decorator, other)
	e.awaitGone(decorator, other)
	e.awaitChild(widget, "web", finalizers(e.mark()))
	e.remove("ConfigMap", "web-one")
	e.awaitChild("ConfigMap", "web-one", attachedTo(target, e.name))
	if e.look("ConfigMap", "web-two") == nil {
		t.Error("the attachment of the deleted DecoratorController is gone")
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}
