// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// TestCompositeGroupUnavailable: an aggregated API is down when the engine starts, and when a declaration comes to need it.
func TestCompositeGroupUnavailable(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	group := e.name + ".example.com"
	part := "Part." + group + "/v1"
	e.grantEngine(rightsOnChildren(group, "parts")...)
	e.definition("Part", "parts", "{}")
	e.hook.Answers(func(call *hookCall) any {
		children := list{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}", call.name()).Object}
		if call.Children[part] != nil {
			children = append(children, object(t, "{apiVersion: %s/v1, kind: Part, metadata: {name: %s}}", group, call.name()).Object)
		}
		return tree{"children": children}
	})
	proxy, kubeconfig := e.startProxy(&faultproxy.Journal{})
	mend := proxy.Answer(func(r faultproxy.Request) bool { return strings.HasPrefix(r.Path, "/apis/"+group) }, apierrors.NewServiceUnavailable("no endpoints"))
	e.runVia(proxy, kubeconfig)
	const configMaps = "{apiVersion: v1, resource: configmaps}"
	parts := "{apiVersion: " + group + "/v1, resource: parts}"
	cc := e.serves(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [` + configMaps + ", " + parts + `]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	e.parent("web")
	message := e.awaitReason(v1alpha1.ReasonGroupUnavailable)
	for _, want := range []string{group + "/v1", "no endpoints"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %q in it", message, want)
		}
	}
	e.awaitEventOn(cc, "CreateError", "no endpoints")
	e.change(composite, e.name, "{spec: {childResources: ["+configMaps+"]}}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild("ConfigMap", "web")
	e.change(composite, e.name, "{spec: {childResources: ["+configMaps+", "+parts+"]}}")
	e.awaitReason(v1alpha1.ReasonGroupUnavailable)
	mend()
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild(part, "web")
}

// TestCompositeAnswerMendsHook: the condition does not blame a hook that has answered, while its children cannot be written for another reason.
func TestCompositeAnswerMendsHook(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	proxy, kubeconfig := e.startProxy(&faultproxy.Journal{})
	e.runVia(proxy, kubeconfig)
	e.hook.Says(says(http.StatusInternalServerError, "down"))
	e.serves(configMaps)
	e.parent("web")
	e.awaitReason("HookFailed")
	isCreate := func(r faultproxy.Request) bool { return r.Verb == "create" && r.Resource == "configmaps" }
	mend := proxy.Answer(isCreate, apierrors.NewInternalError(errors.New("an admission webhook does not answer")))
	e.hook.Answers(func(call *hookCall) any {
		return tree{"children": list{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}", call.name()).Object}}
	})
	e.change(widget, "web", "{spec: {new: true}}")
	e.awaitReason(v1alpha1.ReasonServing)
	if e.look("ConfigMap", "web") != nil {
		t.Error("the ConfigMap exists")
	}
	mend()
	e.awaitChild("ConfigMap", "web")
}
