// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	manifests = "../../manifests"
	chartDir  = manifests + "/chart"
)

// objects by their identity.
type objects map[string]*unstructured.Unstructured

// helmTemplate returns what helm template prints with these values (as of --set, one a line).
func helmTemplate(t *testing.T, releaseNamespace string, values ...string) (objects, error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	parsed := map[string]any{}
	for _, value := range values {
		if err := strvals.ParseInto(value, parsed); err != nil {
			t.Fatal(err)
		}
	}
	config := action.NewConfiguration()
	config.SetLogger(slog.NewTextHandler(io.Discard, nil))
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = "millwright", releaseNamespace
	install.DryRunStrategy = action.DryRunClient
	install.KubeVersion = &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	released, err := install.Run(chart, parsed)
	if err != nil {
		return nil, err
	}
	return parse(t, released.(*release.Release).Manifest), nil
}

func parse(t *testing.T, text string) objects {
	t.Helper()
	found := objects{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var document runtime.RawExtension
		if err := decoder.Decode(&document); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if len(document.Raw) == 0 || string(document.Raw) == "null" {
			continue // a comment
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(document.Raw); err != nil {
			t.Fatal(err)
		}
		if found[identity(object)] != nil {
			t.Errorf("%s is there twice", identity(object))
		}
		found[identity(object)] = object
	}
}

// mustTemplate is helmTemplate of valid values.
func mustTemplate(t *testing.T, releaseNamespace string, values ...string) objects {
	t.Helper()
	found, err := helmTemplate(t, releaseNamespace, values...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// kustomized returns what kubectl kustomize prints.
func kustomized(t *testing.T, components ...string) objects {
	t.Helper()
	list, err := kustomize(manifests, components...)
	if err != nil {
		t.Fatal(err)
	}
	found := objects{}
	for _, object := range list {
		found[identity(object)] = object
	}
	return found
}

// withoutKeep removes the annotation by which Helm keeps objects, and returns the sorted kinds that had it.
func (o objects) withoutKeep() []string {
	kinds := map[string]bool{}
	for _, object := range o {
		annotations := object.GetAnnotations()
		if annotations[keepAnnotation] != "keep" {
			continue
		}
		kinds[object.GetKind()] = true
		delete(annotations, keepAnnotation)
		if len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
	}
	return slices.Sorted(maps.Keys(kinds))
}

// equal reports each object that differs.
func equal(t *testing.T, want, got objects) {
	t.Helper()
	for name := range want {
		if got[name] == nil {
			t.Errorf("the chart lacks %s", name)
		} else if difference := cmp.Diff(want[name].Object, got[name].Object); difference != "" {
			t.Errorf("%s differs, kustomization (-), chart (+):\n%s", name, difference)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("only the chart has %s", name)
		}
	}
}

func TestChartEqualsKustomization(t *testing.T) {
	for name, tc := range map[string]struct{ values, components []string }{
		"at default values":                   {},
		"with monitoring":                     {[]string{"monitoring.enabled=true"}, []string{"monitoring"}},
		"with all rights for the engine":      {[]string{"engine.allRights=true"}, []string{"engine-all-rights"}},
		"with monitoring and all rights":      {[]string{"monitoring.enabled=true,engine.allRights=true"}, []string{"monitoring", "engine-all-rights"}},
		"with the namespace named explicitly": {[]string{"namespace=millwright-system"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := kustomized(t, tc.components...), mustTemplate(t, "default", tc.values...)
			if len(want) < 40 {
				t.Errorf("the kustomization has only %d objects", len(want))
			}
			if kinds := got.withoutKeep(); !slices.Equal(kinds, []string{"CustomResourceDefinition", "Namespace"}) {
				t.Errorf("helm uninstall keeps %v, and has to keep CRDs and the namespace", kinds)
			}
			equal(t, want, got)
		})
	}
}

func TestReleaseInItsOwnNamespace(t *testing.T) {
	const other = "team-operators"
	want := objects{}
	for name, object := range kustomized(t) {
		if object.GetKind() == "Namespace" {
			continue // helm install --create-namespace
		}
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "CustomResourceDefinition" {
			text = []byte(strings.ReplaceAll(string(text), namespace, other))
		}
		if name == "Deployment.apps "+namespace+"/millwright-core" {
			text = []byte(strings.Replace(string(text), `"--metrics-address=:8443"`, `"--metrics-address=:8443","--farm-namespace=`+other+`"`, 1))
		}
		moved := &unstructured.Unstructured{}
		if err := moved.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		want[identity(moved)] = moved
	}
	got := mustTemplate(t, other)
	got.withoutKeep()
	equal(t, want, got)

	t.Run("the chart creates a namespace that is not that of the release", func(t *testing.T) {
		created := mustTemplate(t, "releases", "namespace="+other)["Namespace /"+other]
		if created == nil || created.GetLabels()["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("got %v", created)
		}
	})
}

func TestDisabledDeploymentLeavesNothing(t *testing.T) {
	all := mustTemplate(t, "default")
	for _, deployment := range deployments {
		if deployment == "core" {
			continue // the farm needs it
		}
		t.Run(deployment, func(t *testing.T) {
			left := mustTemplate(t, "default", deployment+".enabled=false")
			for name, object := range all {
				if removed := left[name] == nil; removed != (deploymentOf(object) == deployment) {
					t.Errorf("%s: removed: %v", name, removed)
				}
			}
			account := map[string]string{"farm": "farm-operator"}[deployment]
			if account == "" {
				account = "millwright-" + deployment
			}
			for name, object := range left {
				subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
				for _, subject := range subjects {
					if subject.(map[string]any)["name"] == account {
						t.Errorf("%s still gives rights to %s", name, account)
					}
				}
			}
		})
	}
}

func TestLint(t *testing.T) {
	result := lint.RunAll(chartDir, nil, "default")
	for _, message := range result.Messages {
		// An icon would be loaded from elsewhere.
		if !strings.Contains(message.Error(), "icon is recommended") {
			t.Error(message)
		}
	}
}

func TestFilesThatAreNotGeneratedStay(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, map[string]string{"crds/old.yaml": generatedPrefix + "x", "stays.yaml": generatedPrefix + "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, map[string]string{"crds/new.yaml": generatedPrefix + "y", "stays.yaml": generatedPrefix + "y"}); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{"*.yaml", "crds/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	if want := []string{filepath.Join(dir, "own.yaml"), filepath.Join(dir, "stays.yaml"), filepath.Join(dir, "crds/new.yaml")}; !slices.Equal(left, want) {
		t.Errorf("left are %q; want %q", left, want)
	}
}
