// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testca"
)

// conversion is a conversion webhook that cannot convert an object with spec.broken.
func conversion(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID               string `json:"uid"`
			DesiredAPIVersion string `json:"desiredAPIVersion"`
			Objects           []tree `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := tree{"uid": review.Request.UID, "result": tree{"status": "Success"}, "convertedObjects": review.Request.Objects}
	for _, o := range review.Request.Objects {
		o["apiVersion"] = review.Request.DesiredAPIVersion
		if _, broken, _ := unstructured.NestedFieldNoCopy(o, "spec", "broken"); broken {
			name, _, _ := unstructured.NestedString(o, "metadata", "name")
			answer["result"] = tree{"status": "Failure", "message": "cannot convert " + name}
			delete(answer, "convertedObjects")
		}
	}
	_ = json.NewEncoder(w).Encode(tree{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": answer})
}

// TestCompositeReportsStalledWatch: one object that cannot be converted makes every list and watch of its kind fail, so that no client sees changes of
// the others.
func TestCompositeReportsStalledWatch(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	group := e.name + ".example.com"
	e.grantEngine(rightsOnParents(group, "gizmos")...)
	ca := testca.New(t, "conversion")
	server := httptest.NewUnstartedServer(http.HandlerFunc(conversion))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "conversion").TLS}}
	server.StartTLS()
	t.Cleanup(server.Close)
	crd := e.put(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.%[1]s}
spec:
  group: %[1]s
  names: {kind: Gizmo, plural: gizmos}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: %[2]s, caBundle: %[3]s}}
  versions:
  - {name: v1, served: true, storage: false, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, group, server.URL, base64.StdEncoding.EncodeToString(ca.PEM))
	e.cleanUp(definitions, crd.GetName())
	address := freeAddress(t)
	e.run(&faultproxy.Journal{}, func(options *manager.Options) { options.ServingAddress = address })
	e.hook.Answers(func(call *hookCall) any {
		size, _, _ := unstructured.NestedFieldNoCopy(call.Parent, "spec", "size")
		return tree{"status": tree{"size": size}}
	})
	gizmo := "Gizmo." + group + "/v2"
	const spec = `
generateSelector: true
parentResource: {apiVersion: GROUP/v1, resource: gizmos, labelSelector: {}}
hooks: {sync: {webhook: {url: HOOK/sync}}}
`
	cc := e.serves(strings.ReplaceAll(spec, "GROUP", group))
	e.put("{apiVersion: %s/v2, kind: Gizmo, metadata: {name: web}, spec: {size: 1}}", group)
	hasSize := func(want int64) func(*unstructured.Unstructured) string {
		return func(parent *unstructured.Unstructured) string {
			if size, _, _ := unstructured.NestedInt64(parent.Object, "status", "size"); size != want {
				return "the status is that of another size"
			}
			return ""
		}
	}
	e.awaitChild(gizmo, "web", hasSize(1))
	e.awaitReason(v1alpha1.ReasonServing)

	e.put("{apiVersion: %s/v2, kind: Gizmo, metadata: {name: bad}, spec: {broken: true}}", group)
	message := e.awaitReason(v1alpha1.ReasonWatchStalled)
	for _, want := range []string{"gizmos.v1." + group, "cannot convert bad"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %q in it", message, want)
		}
		if got := readiness(address, "watches"); !strings.Contains(got, want) {
			t.Errorf("readyz: got %s, want %q in it", got, want)
		}
	}
	e.awaitEventOn(cc, v1alpha1.ReasonWatchStalled, "cannot convert bad")
	e.change(gizmo, "web", "{spec: {size: 2}}")
	second := e.composite(e.name+"-2", strings.ReplaceAll(spec, "GROUP", group))
	if _, err := e.at(composite).Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.cleanUp(composite, second.GetName())
	e.awaitReasonOf(second.GetName(), v1alpha1.ReasonWatchStalled)

	e.remove(gizmo, "bad")
	e.awaitChild(gizmo, "web", hasSize(2))
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitReasonOf(second.GetName(), v1alpha1.ReasonServing)
	if got := readiness(address, "watches"); got != "ok" {
		t.Errorf("readyz: got %s, want ok", got)
	}
}

// TestCompositeDeadParentsStayDead: parents are deleted while the engine has no right to watch them. When it has the right again, it does not act on the
// parents that it knew.
func TestCompositeDeadParentsStayDead(t *testing.T) {
	t.Parallel()
	const parents = 60
	e := newEngineEnv(t)
	group := e.name + ".example.com"
	gizmo := "Gizmo." + group + "/v1"
	e.grantEngine(rightsOnParents(group, "gizmos")...)
	e.definition("Gizmo", "gizmos", "{status: {}}")
	e.hook.Answers(func(call *hookCall) any {
		return tree{"children": list{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}", call.name()).Object}}
	})
	proxy, kubeconfig := e.startProxy(&faultproxy.Journal{})
	e.runVia(proxy, kubeconfig)
	e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
childResources: [{apiVersion: v1, resource: configmaps}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	name := func(i int) string { return fmt.Sprintf("dead-%d", i) }
	for i := range parents {
		e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: %s}}", group, name(i))
	}
	for i := range parents {
		e.awaitChild("ConfigMap", name(i))
	}
	give := proxy.Answer(func(r faultproxy.Request) bool {
		return r.Resource == "gizmos" && (r.Verb == "list" || r.Verb == "watch")
	}, apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: "gizmos"}, "", errors.New("taken away")))
	proxy.CutWatches()
	e.awaitReason(v1alpha1.ReasonForbidden)
	for i := range parents {
		e.remove(gizmo, name(i))
	}
	for i := range parents {
		e.awaitGone(gizmo, name(i))
	}
	before := len(e.hook.Calls())
	give()
	e.awaitReason(v1alpha1.ReasonServing)
	e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: living}}", group)
	e.awaitChild("ConfigMap", "living")
	for _, call := range e.hook.Calls()[before:] {
		if call.name() != "living" {
			t.Errorf("the hook was called about %s, which is dead", call.name())
		}
	}
}
