// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/testing/testcluster"
)

// The manifests of the farm are in a folder of their own.
const (
	manifests     = "../../../manifests/*.yaml"
	farmManifests = "../../../manifests/farm/*.yaml"
)

// notInstalled are kinds in the manifests that concern Pods. The servers of these tests run outside the cluster.
var notInstalled = []string{"Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Kustomization"}

// installFarmManifests applies the manifests, but with a Service that leads to a port of this machine.
func installFarmManifests(t *testing.T, cluster *testcluster.Cluster, port int) {
	t.Helper()
	objects := []*unstructured.Unstructured{externalService(farmNamespace)}
	err := eachObject(farmManifests, func(kind string, document []byte) error {
		if slices.Contains(notInstalled, kind) {
			return nil
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return err
		}
		if kind == "APIService" {
			setPort(t, object, port)
		}
		objects = append(objects, object)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	applyObjects(t, cluster, objects)
}

// externalService returns a Service of a server outside the cluster.
func externalService(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "farm-operator", "namespace": namespace},
		"spec":     map[string]any{"type": "ExternalName", "externalName": "localhost"},
	}}
}

// setPort sets the port of an APIService.
func setPort(t *testing.T, apiService *unstructured.Unstructured, port int) {
	t.Helper()
	if err := unstructured.SetNestedField(apiService.Object, int64(port), "spec", "service", "port"); err != nil {
		t.Fatal(err)
	}
}

// applyObjects applies objects as hack/deploy.sh does.
func applyObjects(t *testing.T, cluster *testcluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "farm.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", path)
}
