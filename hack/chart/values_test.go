// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestValues(t *testing.T) {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	inPod := func(path ...string) []string { return append([]string{"spec", "template", "spec"}, path...) }
	image := inPod("containers", "image")
	flags := []any{"controllers", "--controllers=actionset", "--namespace=millwright-system", "--leader-elect-lease-name=millwright-actions",
		"--serving-address=:8080", "--metrics-address=:8443", "--namespace=", "--v=2"}
	for name, tc := range map[string]struct {
		values []string
		// deployment is the one that is checked, "core" if empty. Its field at the path has this value; with a nil value, it has none.
		deployment string
		path       []string
		want       any
	}{
		"image and tag": {
			values: []string{"image.repository=r.example:5000/m,image.tag=v2"}, path: image, want: "r.example:5000/m:v2"},
		"image and digest": {
			values: []string{"image.repository=r.example/m,image.tag=v2,image.digest=" + digest}, path: image, want: "r.example/m@" + digest},
		"image of the farm": {
			values: []string{"image.tag=v2"}, deployment: "farm", path: image, want: "millwright:v2"},
		"pull policy": {
			values: []string{"image.pullPolicy=Always"}, path: inPod("containers", "imagePullPolicy"), want: "Always"},
		"pull secrets": {
			values: []string{"image.pullSecrets={a,b}"},
			path:   inPod("imagePullSecrets"), want: []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}},
		},
		"replicas": {
			values: []string{"engine.replicas=3"}, deployment: "engine", path: []string{"spec", "replicas"}, want: int64(3)},
		"resources": {
			values: []string{"core.resources.limits.memory=2Gi"}, path: inPod("containers", "resources", "limits", "memory"), want: "2Gi"},
		"requests stay with another limit": {
			values: []string{"core.resources.limits.memory=2Gi"}, path: inPod("containers", "resources", "requests", "memory"), want: "64Mi"},
		"flags come last": {
			values: []string{"actions.extraArgs={--namespace=,--v=2}"}, deployment: "actions", path: inPod("containers", "args"), want: flags},
		"node selector for all": {
			values: []string{"nodeSelector.disk=ssd"}, deployment: "farm", path: inPod("nodeSelector"), want: map[string]any{"disk": "ssd"}},
		"node selector of one": {
			values: []string{"nodeSelector.disk=ssd,core.nodeSelector.arch=arm"}, path: inPod("nodeSelector"), want: map[string]any{"arch": "arm"}},
		"node selector of another": {
			values: []string{"core.nodeSelector.arch=arm"}, deployment: "engine", path: inPod("nodeSelector"), want: nil},
		"tolerations": {
			values: []string{"tolerations[0].key=k,tolerations[0].operator=Exists"}, path: inPod("tolerations"), want: []any{map[string]any{"key": "k", "operator": "Exists"}}},
		"affinity": {
			values: []string{"core.affinity.nodeAffinity.x=y"}, path: inPod("affinity", "nodeAffinity", "x"), want: "y"},
		"priority class for all": {
			values: []string{"priorityClassName=high"}, path: inPod("priorityClassName"), want: "high"},
		"priority class of the farm stays": {
			values: []string{"priorityClassName=high"}, deployment: "farm", path: inPod("priorityClassName"), want: "system-cluster-critical"},
		"annotations of Pods": {
			values: []string{"core.podAnnotations.team=a"},
			path:   []string{"spec", "template", "metadata", "annotations"},
			want:   map[string]any{"kubectl.kubernetes.io/default-container": "controllers", "team": "a"},
		},
		"labels of Pods": {
			values: []string{"farm.podLabels.team=a"}, deployment: "farm", path: []string{"spec", "template", "metadata", "labels", "team"}, want: "a"},
		"labels of Pods leave the selector": {
			values: []string{"core.podLabels.team=a"}, path: []string{"spec", "selector", "matchLabels", "team"}, want: nil},
		"the farm with nothing else than core": {
			values: []string{"engine.enabled=false,actions.enabled=false"}, deployment: "farm", path: []string{"metadata", "name"}, want: "farm-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := tc.deployment
			if deployment == "" {
				deployment = "core"
			}
			for _, object := range mustTemplate(t, "default", tc.values...) {
				if object.GetKind() == "Deployment" && deploymentOf(object) == deployment {
					if got := field(object.Object, tc.path); !reflect.DeepEqual(got, tc.want) {
						t.Errorf("got %v; want %v", got, tc.want)
					}
					return
				}
			}
			t.Errorf("no Deployment of %s", deployment)
		})
	}
}

// field returns the value at the path, with "containers" for the only container; nil if there is none.
func field(value any, path []string) any {
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
		if list, isList := value.([]any); isList && name == "containers" {
			value = list[0]
		}
	}
	return value
}

func TestSwitches(t *testing.T) {
	for value, gone := range map[string]func(*unstructured.Unstructured) bool{
		"networkPolicy.enabled=false":       func(o *unstructured.Unstructured) bool { return o.GetKind() == "NetworkPolicy" },
		"podDisruptionBudget.enabled=false": func(o *unstructured.Unstructured) bool { return o.GetKind() == "PodDisruptionBudget" },
		"crds.install=false":                func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" },
		"metrics.enabled=false": func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Service" && o.GetName() != "farm-operator"
		},
		"core.replicas=1": func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "PodDisruptionBudget" && o.GetName() == "millwright-core"
		},
	} {
		t.Run(value, func(t *testing.T) {
			got, count := mustTemplate(t, "default", value), 0
			for name, object := range mustTemplate(t, "default") {
				if gone(object) {
					count++
				}
				if left := got[name] != nil; left == gone(object) {
					t.Errorf("%s: left: %v", name, left)
				}
			}
			if count == 0 {
				t.Error("there is no such object at default values either")
			}
		})
	}
	t.Run("metrics.enabled=false closes their port", func(t *testing.T) {
		policy := mustTemplate(t, "default", "metrics.enabled=false")["NetworkPolicy.networking.k8s.io "+namespace+"/millwright-core"]
		ports := field(policy.Object["spec"].(map[string]any)["ingress"].([]any)[0], []string{"ports"})
		if want := []any{map[string]any{"port": "health"}}; !reflect.DeepEqual(ports, want) {
			t.Errorf("got %v; want %v", ports, want)
		}
	})
	t.Run("networkPolicy.farmFrom", func(t *testing.T) {
		const policy = "NetworkPolicy.networking.k8s.io " + namespace + "/farm-operator"
		from := func(values ...string) any {
			return field(mustTemplate(t, "default", values...)[policy].Object["spec"].(map[string]any)["ingress"].([]any)[0], []string{"from"})
		}
		want := []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.1/32"}}, map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		}}
		if got := from("networkPolicy.farmFrom[0].ipBlock.cidr=192.0.2.1/32", "networkPolicy.farmFrom[1].namespaceSelector.matchLabels.a=b"); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v; want %v", got, want)
		}
		if got := from(); got != nil {
			t.Errorf("by default: got %v; want everyone", got)
		}
	})
	t.Run("crds.keep=false", func(t *testing.T) {
		if kept := mustTemplate(t, "default", "crds.keep=false").withoutKeep(); !reflect.DeepEqual(kept, []string{"Namespace"}) {
			t.Errorf("kept are %v", kept)
		}
	})
}

func TestBadValuesAreRefused(t *testing.T) {
	for value, words := range map[string][]string{
		"networkPolicy.farmFrom[0].cidr=192.0.2.1/32": {"/networkPolicy/farmFrom/0", "cidr"},
		"core.replica=3":                                {"/core", "replica"},
		"cores.replicas=3":                              {"cores"},
		"core.replicas=two":                             {"/core/replicas", "integer"},
		"core.replicas=-1":                              {"/core/replicas", "minimum"},
		"core.enabled=yes":                              {"/core/enabled", "boolean"},
		"image.pullPolicy=Sometimes":                    {"/image/pullPolicy", "'Always', 'IfNotPresent', 'Never'"},
		"image.repository=":                             {"/image/repository"},
		"image.repository=r.example/m@sha":              {"/image/repository"},
		"image.tag=a b":                                 {"/image/tag"},
		"image.digest=abc":                              {"/image/digest"},
		"image.pullSecrets=a":                           {"/image/pullSecrets", "array"},
		"core.extraArgs={v=2}":                          {"/core/extraArgs/0"},
		"core.resources.memory=1Gi":                     {"/core/resources", "memory"},
		"core.nodeSelector={a}":                         {"/core/nodeSelector", "object"},
		"farm.affinity.nodeafinity.a=b":                 {"/farm/affinity", "nodeafinity"},
		"actions.allRights=true":                        {"/actions", "allRights"},
		"namespace=Upper":                               {"/namespace"},
		"core.enabled=false":                            {"farm.enabled needs core.enabled", "Set core.enabled=true or farm.enabled=false"},
		"monitoring.enabled=true,metrics.enabled=false": {"monitoring.enabled needs metrics.enabled"},
		"monitoring.enabled=true,engine.enabled=false":  {"monitoring.rules needs core, actions, engine and farm", "Set monitoring.rules=false"},
	} {
		t.Run(value, func(t *testing.T) {
			_, err := helmTemplate(t, "default", value)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("got %v; want %q in it", err, word)
				}
			}
		})
	}
	for _, value := range []string{"global.a=b", "enabled=true"} { // what Helm and a parent chart add to a subchart
		if _, err := helmTemplate(t, "default", value); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}
