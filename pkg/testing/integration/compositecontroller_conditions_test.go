// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
)

func TestCompositeNotReadyReasons(t *testing.T) {
	t.Parallel()
	parent := "parentResource: {apiVersion: test.example.com/v1, resource: widgets}\n"
	sync := "hooks: {sync: {webhook: {url: HOOK/sync}}}\n"
	child := func(more string) string {
		return "childResources: [{apiVersion: v1, resource: configmaps" + more + "}]\n"
	}
	for name, test := range map[string]struct {
		spec, reason, text string
	}{
		"no hooks":               {parent, "InvalidSpec", "no hooks defined"},
		"hooks without webhooks": {parent + "hooks: {sync: {}, finalize: {}}", "InvalidSpec", "neither sync nor finalize"},
		"cluster-scoped parents that roll": {strings.Replace(parent, "widgets", "clusterwidgets", 1) + sync + child(", updateStrategy: {method: RollingInPlace}"),
			"InvalidSpec", "spec.childResources[0].updateStrategy.method: clusterwidgets.test.example.com are cluster-scoped"},
		"hook without address": {parent + "hooks: {sync: {webhook: {path: /sync}}}", "InvalidHook", "sync hook"},
		"invalid selector": {"parentResource: {apiVersion: test.example.com/v1, resource: widgets, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}\n" + sync,
			"InvalidSpec", "labelSelector"},
		"cluster-scoped child of namespaced parent": {parent + sync + "childResources: [{apiVersion: v1, resource: namespaces}]", "InvalidSpec", "cluster-scoped"},
		"child type in two versions": {parent + sync + "childResources: [{apiVersion: autoscaling/v1, resource: horizontalpodautoscalers}, " +
			"{apiVersion: autoscaling/v2, resource: horizontalpodautoscalers}]", "InvalidSpec", "childResources[1]"},
		"parent not served": {strings.Replace(parent, "widgets", "gadgets", 1) + sync, "ParentNotServed", "gadgets.test.example.com"},
		"child not served":  {parent + sync + "childResources: [{apiVersion: test.example.com/v1, resource: gadgets}]", "ChildNotServed", "gadgets.test.example.com"},
		"parent without status": {"parentResource: {apiVersion: v1, resource: configmaps}\n" + sync,
			"StatusSubresourceMissing", "does not have subresource 'Status' enabled"},
		"two ways of authentication": {parent + "hooks: {sync: {webhook: {url: HOOK/sync, basicAuth: {secretRef: {name: a, namespace: b}}, " +
			"authorization: {secretRef: {name: a, namespace: b, key: c}}}}}", "InvalidHook", "basicAuth"},
		"ignored update hooks": {parent + "hooks: {sync: {webhook: {url: HOOK/sync}}, preUpdateChild: {webhook: {url: HOOK/a}}, " +
			"postUpdateChild: {webhook: {url: HOOK/b}}}", "Serving", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			cc := e.serves(test.spec)
			if message := e.awaitReason(test.reason); !strings.Contains(message, test.text) {
				t.Errorf("message of the condition: got %q, want %q in it", message, test.text)
			}
			switch test.reason {
			case v1alpha1.ReasonServing:
			case v1alpha1.ReasonStatusSubresourceMissing:
				e.awaitEventOn(cc, "SyncError", test.text)
			default:
				e.awaitEventOn(cc, "CreateError", test.text)
			}
			// The author corrects the spec, and the engine serves it without a restart.
			e.hook.Answers(oneConfigMap)
			e.parent("web")
			corrected := e.composite(e.name, configMaps)
			corrected.SetResourceVersion(e.look(composite, e.name).GetResourceVersion())
			if _, err := e.at(composite).Update(t.Context(), corrected, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			e.awaitChild("ConfigMap", "web")
			e.awaitReason(v1alpha1.ReasonServing)
		})
	}
}

func TestCompositeNameTooLong(t *testing.T) {
	e := inSharedEngine(t)
	e.name += "-" + strings.Repeat("n", 43-len(e.name)-1)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.finalizer())) // the longest name that is valid
	e.name += "n"
	e.serves(finalized)
	if message := e.awaitReason(v1alpha1.ReasonInvalidSpec); !strings.Contains(message, "43 characters") {
		t.Errorf("message of the condition: got %q, want the limit in it", message)
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

func TestCompositeKubectlColumns(t *testing.T) {
	e := inSharedEngine(t)
	e.serves(strings.Replace(configMaps, "childResources: [", "childResources: [{apiVersion: v1, resource: services}, ", 1))
	e.awaitReason(v1alpha1.ReasonServing)
	lines := strings.Split(strings.TrimSpace(e.kubectl("get", "cc", e.name)), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME PARENT CHILDREN READY AGE" {
		t.Errorf("got columns %s", got)
	}
	if fields := strings.Fields(lines[1]); len(fields) != 5 || fields[1] != "widgets" || fields[2] != "services,configmaps" || fields[3] != "True" {
		t.Errorf("got row %q, want the parent, the children and True", lines[1])
	}
	if got := e.kubectl("wait", "--for=condition=Ready", patience.Timeout, "cctl/"+e.name); !strings.Contains(got, "condition met") {
		t.Errorf("kubectl wait: got %s, want the condition met", got)
	}
}

func TestCompositeEngineSelector(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	spec := e.composite(e.name, configMaps)
	spec.SetLabels(map[string]string{engineTest: "another"})
	cc, err := e.at(composite).Create(t.Context(), spec, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.cleanUp(composite, e.name)
	e.parent("web", "{spec: {who: me}}")
	time.Sleep(300 * time.Millisecond)
	if calls := len(e.hook.Calls()); calls > 0 {
		t.Fatalf("got %d calls of the hook, want none", calls)
	}
	e.change(composite, e.name, fmt.Sprintf("{metadata: {labels: {%s: %s}}}", engineTest, e.servedBy))
	e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
	e.change(composite, e.name, fmt.Sprintf("{metadata: {labels: {%s: another}}}", engineTest))
	e.awaitEventOn(cc, "Stopped", e.name)
	calls := len(e.hook.Calls())
	e.change(widget, "web", "{spec: {who: you}}")
	e.stays(500*time.Millisecond, func() string {
		if len(e.hook.Calls()) > calls {
			return "the hook was called for a CompositeController of another engine"
		}
		return ""
	})
	e.change(composite, e.name, fmt.Sprintf("{metadata: {labels: {%s: %s}}}", engineTest, e.servedBy))
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
}

func TestCompositeEngineOfOneNamespace(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	elsewhere := newEngineEnv(t)
	e.hook.Answers(oneConfigMap)
	e.run(&faultproxy.Journal{}, func(options *manager.Options) { options.Namespace = e.namespace })
	e.serves(configMaps)
	e.parent("web")
	o := object(t, "{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: elsewhere, labels: {%s: %s}}}", testLabel, e.namespace)
	if _, err := elsewhere.at(widget).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitChild("ConfigMap", "web")
	e.stays(300*time.Millisecond, func() string {
		for _, call := range e.hook.Calls() {
			if call.name() != "web" {
				return "the hook was called for " + call.name()
			}
		}
		return ""
	})
	change := `{"spec": {"parentResource": {"resource": "clusterwidgets"}}}`
	e.change(composite, e.name, change)
	e.awaitReason(v1alpha1.ReasonNotYetSupported)
}
