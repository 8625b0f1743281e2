// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// TestUndecodableValuesAreRefused: one object that a client cannot decode would fail each list of its kind, and so stop the controller. The test of
// hack/crds tries all fields.
func TestUndecodableValuesAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	client, err := dynamic.NewForConfig(e.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	const (
		app       = `{"apiVersion":"apps.anupam.com/v1","kind":"HelloApp","metadata":{"name":"app"},"spec":{"size":1,FIELD}}`
		immortal  = `{"apiVersion":"immortalcontainers.flugel.it/v1alpha1","kind":"ImmortalContainer","metadata":{"name":"immortal"},"spec":{"image":"i","template":{"spec":FIELD}}}`
		composite = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":{"name":"undecodable"},"spec":{` +
			`"parentResource":{"apiVersion":"v1","resource":"configmaps"},"hooks":{"sync":{"webhook":{"url":"http://hook.invalid","timeout":FIELD}}}}}`
	)
	for _, test := range []struct{ object, field, want string }{
		{app, `"age":"old"`, ""},
		{app, `"age":5000000000`, "spec.age: Invalid value: 5000000000: spec.age in body should be less than or equal to 2147483647"},
		{app, `"size":5000000000`, "spec.size"},
		{app, `"resources":{"limits":{"cpu":"1e3"}}`, ""},
		{app, `"resources":{"limits":{"cpu":"1e1.5"}}`, `spec.resources.limits.cpu: Invalid value: "1e1.5"`},
		{app, `"resources":{"limits":{"cpu":"1e-999999999"}}`, `spec.resources.limits.cpu: Invalid value: "1e-999999999"`},
		{app, `"resources":{"limits":{"cpu":"1` + strings.Repeat("0", 1000) + `"}}`, "spec.resources.limits.cpu: Too long: may not be more than 64"},
		{immortal, `{"containers":[{"name":"c","livenessProbe":{"httpGet":{"port":5000000000}}}]}`,
			"spec.template.spec.containers[0].livenessProbe.httpGet.port"},
		{composite, `"1h2m3.5s"`, ""},
		{composite, `"10 seconds"`,
			"spec.hooks.sync.webhook.timeout: Invalid value: \"string\": type conversion error from 'string' to 'google.protobuf.Duration' evaluating rule: must be a duration as in 30s or 1h30m"},
		{composite, `"99999999h"`, "spec.hooks.sync.webhook.timeout"},
		{composite, `[]`, `spec.hooks.sync.webhook.timeout: Invalid value: "array": spec.hooks.sync.webhook.timeout in body must be of type string: "array"`},
	} {
		var object unstructured.Unstructured
		if err := json.Unmarshal([]byte(strings.ReplaceAll(test.object, "FIELD", test.field)), &object.Object); err != nil {
			t.Fatal(err)
		}
		kind := object.GroupVersionKind()
		resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
		objects := dynamic.ResourceInterface(client.Resource(resource))
		if kind.Kind != "CompositeController" {
			objects = objects.(dynamic.NamespaceableResourceInterface).Namespace(e.namespace)
		}
		got := ""
		if _, err := objects.Create(e.Context(), &object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s with %.60s: the error is %q, want one with %q", kind.Kind, test.field, got, test.want)
		}
	}
}

// post creates an object of the group of ActionSets, which a client need not be able to decode.
func (e *engineEnv) post(resource, body string) {
	e.Helper()
	request := e.client.CrV1alpha1().RESTClient().Post().Namespace(e.namespace).Resource(resource).SetHeader("Content-Type", "application/json")
	if err := request.Body([]byte(body)).Do(e.Context()).Error(); err != nil {
		e.Fatal(err)
	}
}

// nested is an object of that depth.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

// TestUndecodableObjectsFailNoOthers: objects that a client cannot decode are stored already, since another CRD admitted them, or because they are nested
// as deeply as the API server allows. A client then decodes no list that has one.
func TestUndecodableObjectsFailNoOthers(t *testing.T) {
	t.Parallel()
	e := newEngineEnvIn(t, testcluster.Start(t, clusterOptions...))
	const crd, app, set = "helloapps.apps.anupam.com", "HelloApp.apps.anupam.com/v1", "ActionSet.cr.kanister.io/v1alpha1"
	const limit = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/age/maximum"
	e.cluster.Kubectl(t, "patch", "crd", crd, "--type=json", "--patch", `[{"op":"remove","path":"`+limit+`"}]`)
	newApp := func(name, age string) {
		e.eventually(func() string { // the API server admits it a moment after the CRD does
			_, err := e.at(app).Create(t.Context(), object(t, "{apiVersion: apps.anupam.com/v1, kind: HelloApp, metadata: {name: %s}, spec: {image: nginx, size: 1, age: %s}}", name, age),
				metav1.CreateOptions{})
			if err != nil {
				return err.Error()
			}
			return ""
		})
	}
	newSet := func(name string, depth int) {
		e.post("actionsets", `{"apiVersion":"cr.kanister.io/v1alpha1","kind":"ActionSet","metadata":{"name":"`+name+`"},"spec":{"actions":[{"name":"go",`+
			`"blueprint":"none","object":{"kind":"Namespace","name":"`+e.namespace+`"},"podOverride":`+nested(depth)+`}]}}`)
	}
	apps := func() error {
		_, err := e.client.AppsV1().HelloApps(e.namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	sets := func() error {
		_, err := e.client.CrV1alpha1().ActionSets(e.namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	hasStatus := func(o *unstructured.Unstructured) string {
		if status, _ := o.Object["status"].(map[string]any); len(status) == 0 {
			return o.GetName() + " has no status"
		}
		return ""
	}
	hasReplicas := func(want int64) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string {
			if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != want {
				return fmt.Sprintf("%s has %d replicas, want %d", o.GetName(), got, want)
			}
			return ""
		}
	}

	newApp("bad", "5000000000")
	newApp("good", "1")
	e.post("blueprints", `{"apiVersion":"cr.kanister.io/v1alpha1","kind":"Blueprint","metadata":{"name":"deep"},"actions":{"go":{"phases":[],`+
		`"deferPhase":{"name":"last","func":"Wait","args":`+nested(9_996)+`}}}}`)
	newSet("deep", 9_995)
	newSet("flat", 3)
	if apps() == nil || sets() == nil {
		t.Error("a client can decode the lists: the test does not test what it should")
	}
	for _, d := range []deployment{core, actions} {
		startProcessOf(d, e.env, string(d), &faultproxy.Journal{}).awaitWarm()
	}
	const deployment = "Deployment.apps/v1"
	e.awaitChild(deployment, "good", hasReplicas(1))
	e.awaitChild(set, "flat", hasStatus)
	e.awaitEventOn(e.look(app, "bad"), "Undecodable", "cannot be decoded: json: cannot unmarshal number 5000000000 into Go struct field HelloAppSpec.spec.age of type int32")
	if found := e.look(deployment, "bad"); found != nil {
		t.Errorf("an app that cannot be decoded has a Deployment: %v", found)
	}

	// The same while the controllers run.
	e.post("blueprints", `{"apiVersion":"cr.kanister.io/v1alpha1","kind":"Blueprint","metadata":{"name":"later"},"actions":{}}`)
	e.eventually(func() string { // from the cache of the API server, as informers
		text, err := e.client.CrV1alpha1().RESTClient().Get().Namespace(e.namespace).Resource("blueprints").Param("resourceVersion", "0").DoRaw(t.Context())
		if err != nil || !strings.Contains(string(text), `"name":"later"`) {
			return fmt.Sprintf("a list has no Blueprint that was created later (%v)", err)
		}
		return ""
	})
	newApp("worse", "6000000000")
	newSet("deeper", 9_996)
	newApp("better", "2")
	newSet("later", 3)
	e.awaitChild(deployment, "better", hasReplicas(1))
	e.awaitChild(set, "later", hasStatus)
	e.awaitChild(set, "deeper", hasStatus)
	e.awaitEventOn(e.look(app, "worse"), "Undecodable", "6000000000")

	// An app that cannot be decoded any more keeps what it has. It is synced again when it can.
	e.change(app, "good", "{spec: {age: 7000000000, size: 2}}")
	e.awaitEventOn(e.look(app, "good"), "Undecodable", "7000000000")
	e.change(app, "better", "{spec: {size: 3}}")
	e.awaitChild(deployment, "better", hasReplicas(3))
	if got := hasReplicas(1)(e.look(deployment, "good")); got != "" {
		t.Error(got)
	}
	e.change(app, "good", "{spec: {age: 7}}")
	e.awaitChild(deployment, "good", hasReplicas(2))
	e.change(app, "bad", "{spec: {age: 7}}")
	e.awaitChild(deployment, "bad", hasReplicas(1))
}
