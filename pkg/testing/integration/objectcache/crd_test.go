// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/testcluster"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.objectcache.example.com}
spec:
  group: objectcache.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var widgets = schema.GroupVersionResource{Group: "objectcache.example.com", Version: "v1", Resource: "widgets"}

func TestCRDRecreated(t *testing.T) {
	cluster := testcluster.Shared(t)
	manifest := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(manifest, []byte(widgetCRD), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	bothWays(t, func(t *testing.T) {
		namespace := cluster.Namespace(t)
		objects := newCache(t, cluster.Config())
		u := acquire(t, objects, objectcache.Request{Resource: widgets})
		eventually(t, func() string {
			if u.Problem() == nil {
				return "the missing CRD was not reported as a problem"
			}
			return ""
		})
		for round := range 2 {
			cluster.Kubectl(t, "apply", "-f", manifest)
			cluster.Kubectl(t, "wait", "--for=condition=Established", "-f", manifest)
			objects.Retry(widgets.GroupResource())
			for i := range 20 {
				eventually(t, func() string { // the first one may be too early for a CRD that has just been established
					_, err := client.Resource(widgets).Namespace(namespace).Create(t.Context(), widget(fmt.Sprint("w", i), round), metav1.CreateOptions{})
					if err != nil {
						return err.Error()
					}
					return ""
				})
			}
			u.wantUpToDate(t, cluster.Config())
			cluster.Kubectl(t, "delete", "-f", manifest, "--wait")
			eventually(t, func() string {
				if n := len(u.List("", nil)); n > 0 {
					return fmt.Sprintf("%d objects are still cached", n)
				}
				return ""
			})
			time.Sleep(time.Duration(round) * 100 * time.Millisecond) // the CRD is recreated immediately the first time, then after a delay
		}
	})
}

func widget(name string, round int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "objectcache.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"ahead":    "a field that sorts before the others",
		"spec":     map[string]any{"round": int64(round), "part": 1.5, "big": int64(9007199254740993)},
	}}
}
