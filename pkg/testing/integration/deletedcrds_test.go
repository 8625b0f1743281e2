// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// TestDeletedCRDIsNamed: a CustomResourceDefinition is deleted while its controller runs, with its objects, and applied again. Other controllers are not
// affected.
func TestDeletedCRDIsNamed(t *testing.T) {
	t.Parallel()
	e := newEngineEnvIn(t, testcluster.Start(t, clusterOptions...))
	e.hook.Says(tree{"children": list{}})
	operators := map[deployment]*operator{}
	for _, d := range []deployment{core, engine, actions} {
		operators[d] = startProcessOf(d, e.env, string(d), &faultproxy.Journal{})
	}
	for _, o := range operators {
		o.awaitWarm()
	}
	declaration := func(kind, spec string) string {
		return fmt.Sprintf("{apiVersion: metacontroller.k8s.io/v1alpha1, kind: %s, metadata: {name: web, labels: {%s: %s}}, spec: {%s, hooks: {sync: {webhook: {url: %s}}}}}",
			kind, engineTest, e.servedBy, spec, e.hook.URL)
	}
	actionSet := "{apiVersion: cr.kanister.io/v1alpha1, kind: ActionSet, metadata: {name: web}, spec: {actions: [{name: go, blueprint: none, object: {kind: Namespace, name: " +
		e.namespace + "}}]}}"
	machine := "{apiVersion: useless.container.training/v1alpha1, kind: Machine, metadata: {name: web}, spec: {switchPosition: up}}"
	for _, test := range []struct {
		of                        deployment
		controller, group, plural string
		object                    string // which the controller gives a status
	}{
		{core, "helloapp", "apps.anupam.com", "helloapps", "{apiVersion: apps.anupam.com/v1, kind: HelloApp, metadata: {name: web}, spec: {image: nginx, size: 1}}"},
		{core, "immortalcontainer", "immortalcontainers.flugel.it", "immortalcontainers",
			"{apiVersion: immortalcontainers.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: web}, spec: {image: nginx}}"},
		{core, "machine", "useless.container.training", "machines", machine},
		{core, "machine", "useless.container.training", "switches", machine},
		{engine, "compositecontroller", "metacontroller.k8s.io", "compositecontrollers",
			declaration("CompositeController", "generateSelector: true, parentResource: {apiVersion: test.example.com/v1, resource: none}")},
		{engine, "decoratorcontroller", "metacontroller.k8s.io", "decoratorcontrollers",
			declaration("DecoratorController", "resources: [{apiVersion: test.example.com/v1, resource: none}]")},
		{actions, "actionset", "cr.kanister.io", "actionsets", actionSet},
		{actions, "actionset", "cr.kanister.io", "blueprints", actionSet},
		{actions, "actionset", "cr.kanister.io", "profiles", actionSet},
	} {
		o, crd := operators[test.of], test.plural+"."+test.group
		works := func() {
			t.Helper()
			kind := kindOf(object(t, "%s", test.object))
			e.eventually(func() string { // the API server serves a CustomResourceDefinition a moment after it is there
				if _, err := e.at(kind).Create(t.Context(), object(t, "%s", test.object), metav1.CreateOptions{}); err != nil {
					return err.Error()
				}
				return ""
			})
			e.awaitChild(kind, "web", func(o *unstructured.Unstructured) string {
				if status, _ := o.Object["status"].(map[string]any); len(status) == 0 {
					return fmt.Sprintf("%s has no status", kind)
				}
				return ""
			})
			if !strings.EqualFold(object(t, "%s", test.object).GetKind()+"s", test.plural) { // else it goes with its CustomResourceDefinition
				e.remove(kind, "web")
				e.awaitGone(kind, "web")
			}
		}
		works()
		e.remove(definitions, crd)
		e.awaitGone(definitions, crd)
		o.awaitReadiness(test.controller, "Waiting for the CustomResourceDefinition "+crd)
		for _, other := range test.of.controllers(t) {
			if got := readiness(o.address(), other); other != test.controller && got != "ok" {
				t.Errorf("without %s, readyz of %s: got %s, want ok", crd, other, got)
			}
		}
		e.cluster.Kubectl(t, "apply", "--server-side", "-f", "../../../manifests/00-crds/"+test.group+"_"+test.plural+".yaml")
		o.awaitReadiness(test.controller, "ok")
		works()
		kind := kindOf(object(t, "%s", test.object))
		e.remove(kind, "web")
		e.awaitGone(kind, "web")
		if log := o.log.String(); strings.Contains(log, "panic") {
			t.Errorf("the log has a panic:\n%s", log)
		}
	}
	for _, o := range operators {
		o.terminate()
	}
}
