// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// gadgets installs a second type of parents. It returns its kind, and a patch with which the test's CompositeController uses it.
func (e *engineEnv) gadgets() (kind, patch string) {
	e.Helper()
	e.definition("Gadget", "gadgets", "{status: {}}")
	group := e.name + ".example.com"
	e.grantEngine(rightsOnParents(group, "gadgets")...)
	return "Gadget." + group + "/v1", fmt.Sprintf("{spec: {parentResource: {apiVersion: %s/v1, resource: gadgets}}}", group)
}

// parentOf creates a parent of another kind, with the label of the test's parents.
func (e *engineEnv) parentOf(kind, name string) {
	e.Helper()
	short, apiVersion, _ := strings.Cut(kind, ".")
	e.put("{apiVersion: %s, kind: %s, metadata: {name: %s, labels: {%s: %s}}}", apiVersion, short, name, testLabel, e.namespace)
}

// finalizedParents checks that the status of a CompositeController records these resources.
func finalizedParents(want ...string) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		recorded, _, _ := unstructured.NestedSlice(o.Object, "status", "finalizedParents")
		var got []string
		for _, rule := range recorded {
			got = append(got, rule.(tree)["resource"].(string))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("status.finalizedParents: got %v, want %v", got, want)
		}
		return ""
	}
}

func TestCompositeFormerParents(t *testing.T) {
	e := inSharedEngine(t)
	kind, patch := e.gadgets()
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("before", "{metadata: {finalizers: [example.com/theirs]}}")
	child := e.awaitChild("ConfigMap", "before")
	e.awaitChild(widget, "before", finalizers("example.com/theirs", e.finalizer()))
	e.awaitChild(composite, e.name, finalizedParents("widgets"))

	e.change(composite, e.name, patch)
	e.awaitChild(widget, "before", finalizers("example.com/theirs"))
	e.awaitChild(composite, e.name, finalizedParents("gadgets"))
	e.awaitReason(v1alpha1.ReasonServing)
	e.parentOf(kind, "after")
	e.awaitChild(kind, "after", finalizers(e.finalizer()))
	e.awaitChild("ConfigMap", "after")
	if now := e.look("ConfigMap", "before"); now == nil || now.GetUID() != child.GetUID() {
		t.Error("the child of the former parent is gone")
	}
	e.change(widget, "before", "{metadata: {finalizers: null}}")
	e.remove(widget, "before")
	e.awaitGone(widget, "before")
	e.remove(kind, "after")
	e.awaitGone(kind, "after")
}

func TestCompositeFormerParentsOffline(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	kind, patch := e.gadgets()
	e.hook.Answers(clearsAway)
	stop := e.run(&faultproxy.Journal{})
	e.serves(finalized)
	e.parent("before")
	e.awaitChild(widget, "before", finalizers(e.finalizer()))
	stop()
	e.change(composite, e.name, patch)
	stop = e.run(&faultproxy.Journal{})
	e.awaitChild(widget, "before", finalizers())
	e.parentOf(kind, "after")
	e.awaitChild(kind, "after", finalizers(e.finalizer()))
	stop()

	// The CompositeController is edited and deleted while no engine runs.
	e.change(composite, e.name, "{spec: {parentResource: {apiVersion: test.example.com/v1, resource: widgets}}}")
	e.remove(composite, e.name)
	e.run(&faultproxy.Journal{})
	e.awaitGone(composite, e.name)
	e.awaitChild(kind, "after", finalizers())
}

func TestCompositeParentTypeTypo(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
	e.change(composite, e.name, "{spec: {parentResource: {resource: widgetz}}}")
	e.awaitReason(v1alpha1.ReasonParentNotServed)
	e.change(composite, e.name, "{spec: {parentResource: {resource: widgets}}}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild(composite, e.name, finalizedParents("widgets"))
	if complaint := finalizers(e.finalizer())(e.look(widget, "web")); complaint != "" {
		t.Error(complaint)
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
	if calls := e.hook.CallsOf("/finalize"); len(calls) == 0 {
		t.Error("the finalize hook was not called")
	}
}

func TestCompositeFormerParentsForbidden(t *testing.T) {
	e := inSharedEngine(t)
	kind, patch := e.gadgets()
	requests[engine].expectForbidden(schema.GroupResource{Group: e.name + ".example.com", Resource: "tools"})
	e.hook.Answers(clearsAway)
	role := object(e, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s-tools,
  labels: {millwright.dev/aggregate-to-engine: 'true'}}, rules: [{apiGroups: [%s.example.com], resources: [tools, tools/status], verbs: ['*']}]}`,
		e.namespace, e.name)
	e.definition("Tool", "tools", "{status: {}}")
	if _, err := e.at("ClusterRole.rbac.authorization.k8s.io/v1").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.serves(strings.NewReplacer("test.example.com/v1", e.name+".example.com/v1", "widgets", "tools").Replace(finalized))
	e.awaitReason(v1alpha1.ReasonServing)
	tool := strings.Replace(kind, "Gadget", "Tool", 1)
	e.parentOf(tool, "before")
	e.awaitChild(tool, "before", finalizers(e.finalizer()))
	if err := e.at("ClusterRole.rbac.authorization.k8s.io/v1").Delete(t.Context(), role.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.change(composite, e.name, patch)
	if message := e.awaitReason(v1alpha1.ReasonForbidden); !strings.Contains(message, "tools") {
		t.Errorf("message of the condition: got %s, want tools in it", message)
	}
	e.parentOf(kind, "after")
	e.awaitChild(kind, "after", finalizers(e.finalizer()))
	if _, err := e.at("ClusterRole.rbac.authorization.k8s.io/v1").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitChild(tool, "before", finalizers())
	e.awaitReason(v1alpha1.ReasonServing)
}

// TestCompositeDeletedWhileInvalid: the edit that makes the spec invalid takes the types of its parents away.
func TestCompositeDeletedWhileInvalid(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
	e.change(composite, e.name, "{spec: {parentResource: {apiVersion: a/b/c}}}")
	e.awaitReason(v1alpha1.ReasonInvalidSpec)
	e.remove(composite, e.name)
	e.awaitGone(composite, e.name)
	e.awaitChild(widget, "web", finalizers())
}

// TestCompositeFinalizersOfUnservedParents: no version of a CustomResourceDefinition is served for a while. Its objects keep their finalizers meanwhile.
func TestCompositeFinalizersOfUnservedParents(t *testing.T) {
	e := inSharedEngine(t)
	kind, patch := e.gadgets()
	e.hook.Answers(clearsAway)
	cc := e.serves(finalized)
	e.change(composite, e.name, patch)
	e.parentOf(kind, "web")
	e.awaitChild(kind, "web", finalizers(e.finalizer()))
	serve := func(served bool) {
		crd := e.look(definitions, "gadgets."+e.name+".example.com")
		versions := crd.Object["spec"].(map[string]any)["versions"].([]any)
		versions[0].(map[string]any)["served"] = served
		if _, err := e.at(definitions).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wait := func() {
		message := e.awaitReason(v1alpha1.ReasonFinalizersRemain)
		if want := "does not serve gadgets." + e.name + ".example.com"; !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %q in it", message, want)
		}
	}
	serve(false)
	e.awaitReason(v1alpha1.ReasonParentNotServed)
	e.change(composite, e.name, "{spec: {parentResource: {apiVersion: test.example.com/v1, resource: widgets}}}")
	wait()
	e.awaitEventOn(cc, v1alpha1.ReasonFinalizersRemain, "gadgets")
	e.parent("web") // what is served now is not affected
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
	serve(true)
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild(composite, e.name, finalizedParents("widgets"))
	e.awaitChild(kind, "web", finalizers())

	e.change(composite, e.name, patch)
	e.awaitChild(kind, "web", finalizers(e.finalizer()))
	serve(false)
	e.awaitReason(v1alpha1.ReasonParentNotServed)
	e.remove(composite, e.name)
	wait()
	serve(true)
	e.awaitGone(composite, e.name)
	e.awaitChild(kind, "web", finalizers())
}

// TestCompositeOverlapWithoutFinalizeHook: the younger CompositeController has left a parent to the older one, with its finalizer, and gets no finalize hook
// any more.
func TestCompositeOverlapWithoutFinalizeHook(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	older := strings.Replace(finalized, "resource: widgets", "resource: widgets, labelSelector: {matchLabels: {on: \"yes\"}}", 1)
	e.serves(older)
	younger := e.servesToo(finalized)
	own := "metacontroller.io/compositecontroller-" + younger
	for _, name := range []string{"living", "deleted"} {
		e.parent(name)
		e.awaitChild(widget, name, finalizers(own))
	}
	e.change(composite, e.name, fmt.Sprintf("{spec: {parentResource: {labelSelector: {matchLabels: {on: null, %s: %s}}}}}", testLabel, e.namespace))
	e.awaitReasonOf(younger, v1alpha1.ReasonParentsOverlap)
	for _, name := range []string{"living", "deleted"} {
		e.awaitChild(widget, name, finalizers(own, e.finalizer()))
	}
	e.hook.Says(tree{"finalized": false})
	e.remove(widget, "deleted")
	e.awaitCall(0, func(call *hookCall) bool { return call.Finalizing })
	e.change(composite, younger, "{spec: {hooks: {finalize: null}}}")
	for _, name := range []string{"living", "deleted"} {
		e.awaitChild(widget, name, finalizers(e.finalizer()))
	}
	e.awaitChild(composite, younger, finalizers())
	e.hook.Answers(clearsAway)
	e.change(widget, "deleted", "{metadata: {annotations: {sync: again}}}")
	e.awaitGone(widget, "deleted")
}
