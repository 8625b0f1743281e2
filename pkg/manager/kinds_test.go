// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/generated/clientset/versioned/scheme"
)

// ourKinds are those of our scheme, without lists and without what every API group has.
func ourKinds(t *testing.T) (kinds []schema.GroupVersionKind) {
	t.Helper()
	meta := runtime.NewScheme()
	metav1.AddToGroupVersion(meta, schema.GroupVersion{Version: "v1"})
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Group == "" || strings.HasSuffix(kind.Kind, "List") || meta.Recognizes(schema.GroupVersionKind{Version: "v1", Kind: kind.Kind}) {
			continue
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		t.Fatal("the scheme has no kinds: this test looks in the wrong place")
	}
	return kinds
}

// containing returns which files that match the pattern, below the root of the repository, contain the text.
func containing(t *testing.T, pattern, text string) (files []string) {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join("..", "..", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range matches {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), text) {
			files = append(files, file)
		}
	}
	return files
}

// Two groups are not made of CRDs that users write: one is served by an API server of ours, and the other is where that keeps what it serves.
const (
	aggregatedGroup = "farm.example.com"
	recordsGroup    = "storage.farm.example.com"
)

func TestEveryKindIsComplete(t *testing.T) {
	sorts := map[string]int{}
	for _, kind := range ourKinds(t) {
		sorts[kind.Group]++
		t.Run(kind.Kind, func(t *testing.T) {
			switch {
			case kind.Group == aggregatedGroup:
				checkAggregated(t, kind)
			case kind.Group == recordsGroup:
				checkRecord(t, kind)
			case recorded(schema.GroupResource{Group: kind.Group, Resource: pluralInCRD(t, kind)}):
				checkReadOnly(t, kind)
			default:
				checkKind(t, kind)
			}
		})
	}
	if sorts[aggregatedGroup] == 0 || sorts[recordsGroup] == 0 || len(sorts) < 4 {
		t.Errorf("kinds by group are %v: this test looks in the wrong place", sorts)
	}
}

// checkKind of a CRD for users, and of a controller.
func checkKind(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	plural := pluralInCRD(t, kind)
	marker := fmt.Sprintf("+kubebuilder:rbac:groups=%s,resources=%s,", kind.Group, plural)
	needsScenario := reconciled(kind.GroupVersion().WithResource(plural))
	complain(t, kind, map[string]bool{
		"the marker // " + marker + "verbs=... in pkg/controller/<kind>/doc.go":            len(containing(t, "pkg/controller/*/doc.go", marker)) == 0,
		"a row in the table of pkg/manager/controllers.go with " + plural + " in Requires": !required(kind.GroupVersion().WithResource(plural)),
		"a row in the table of README.md that begins with | " + kind.Kind + " |":           len(containing(t, "README.md", "| "+kind.Kind))+len(containing(t, "README.md", ", "+kind.Kind)) == 0,
		"a sample in manifests/samples":                                                    !inSample(t, kind),
		"a guide, a README.md in manifests/samples that speaks of it":                      !inGuide(t, kind),
		"a scenario in pkg/testing/perturbation":                                           needsScenario && len(containing(t, "pkg/testing/perturbation/*_test.go", kind.Kind)) == 0,
		"a test in pkg/testing/integration":                                                len(containing(t, "pkg/testing/integration/*_test.go", kind.Kind)) == 0,
		"rights of users in manifests/22-users.yaml, which make generate writes":           len(containing(t, "manifests/22-users.yaml", plural)) == 0,
		"categories=millwright in its types, for kubectl get millwright":                   !inCategory(t, kind),
	})
}

// recorded reports whether a controller keeps its records in a resource.
func recorded(resource schema.GroupResource) bool {
	return slices.ContainsFunc(Descriptors(), func(d Descriptor) bool { return slices.Contains(d.Records, resource) })
}

// checkReadOnly likewise of a kind that a controller writes and users read.
func checkReadOnly(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	plural := pluralInCRD(t, kind)
	marker := fmt.Sprintf("+kubebuilder:rbac:groups=%s,resources=%s,", kind.Group, plural)
	complain(t, kind, map[string]bool{
		"the marker // " + marker + "verbs=... in pkg/controller/<kind>/doc.go":  len(containing(t, "pkg/controller/*/doc.go", marker)) == 0,
		"rights of users in manifests/22-users.yaml, which make generate writes": len(containing(t, "manifests/22-users.yaml", plural)) == 0,
		"a guide, a README.md in manifests/samples that speaks of it":            !inGuide(t, kind),
		"a scenario in pkg/testing/perturbation":                                 len(containing(t, "pkg/testing/perturbation/*_test.go", kind.Kind)) == 0,
		"a test in pkg/testing/integration":                                      len(containing(t, "pkg/testing/integration/*_test.go", kind.Kind)) == 0,
		"samples that keep to what users may write":                              inSample(t, kind),
		"the right to be left out of kubectl get millwright: it is in it":        inCategory(t, kind),
	})
}

// checkAggregated likewise of a kind of our own API server. With a CRD, kube-apiserver would register an APIService of its own for the group.
func checkAggregated(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	if crds := crdsOf(t, kind); len(crds) > 0 {
		t.Errorf("%s is served by our API server, and has the CRD %s, which would be served in its place", kind, crds[0])
	}
	plural := strings.ToLower(kind.Kind) + "s"
	service := "kind: APIService\nmetadata:\n  name: " + kind.Version + "." + kind.Group + "\n"
	complain(t, kind, map[string]bool{
		"an APIService that leads to its server":                              len(containing(t, "manifests/farm/*.yaml", service)) == 0,
		"a rule in the roles of users":                                        len(containing(t, "manifests/farm/22-users.yaml", plural)) == 0,
		"a guide, a README.md in manifests/samples that speaks of it":         !inGuide(t, kind),
		"a sample in manifests/samples, though its objects are made by users": kind.Kind != "FarmPod" && !inSample(t, kind),
	})
}

// checkRecord likewise of a kind that is for our own API server alone.
func checkRecord(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	plural := pluralInCRD(t, kind)
	complain(t, kind, map[string]bool{
		"a policy that refuses what others write":                          len(containing(t, "manifests/farm/*.yaml", "resources: ["+plural+"]\n      operations: [CREATE, UPDATE, DELETE]\n")) == 0,
		"rights of the API server alone: users have some":                  len(containing(t, "manifests/*/22-users.yaml", plural))+len(containing(t, "manifests/22-users.yaml", plural)) > 0,
		"samples and guides that keep to what users may write":             inSample(t, kind),
		"the right to be left out of kubectl get millwright: it is in it":  inCategory(t, kind),
		"a place in the rights of the API server that keeps its own there": len(containing(t, "manifests/farm/21-role.yaml", "  resources: ["+plural+"]\n")) == 0,
	})
}

func complain(t *testing.T, kind schema.GroupVersionKind, lacks map[string]bool) {
	t.Helper()
	for what, missing := range lacks {
		if missing {
			t.Errorf("%s lacks %s", kind, what)
		}
	}
}

func crdsOf(t *testing.T, kind schema.GroupVersionKind) []string {
	t.Helper()
	return containing(t, "manifests/00-crds/"+kind.Group+"_*.yaml", "    kind: "+kind.Kind+"\n")
}

// pluralInCRD is what a kind is called in its CRD, which must be there, and be installed.
func pluralInCRD(t *testing.T, kind schema.GroupVersionKind) string {
	t.Helper()
	crds := crdsOf(t, kind)
	if len(crds) != 1 {
		t.Fatalf("%s has %d CRDs, want one: run make generate", kind, len(crds))
	}
	file := filepath.Base(crds[0])
	complain(t, kind, map[string]bool{"a line in manifests/kustomization.yaml, which make generate writes": len(containing(t, "manifests/kustomization.yaml", "- 00-crds/"+file+"\n")) == 0})
	plural, _, _ := strings.Cut(strings.TrimPrefix(file, kind.Group+"_"), ".")
	return plural
}

// inCategory reports whether kubectl get millwright gets a kind that has a CRD.
func inCategory(t *testing.T, kind schema.GroupVersionKind) bool {
	t.Helper()
	for _, crd := range crdsOf(t, kind) {
		return len(containing(t, filepath.Join("manifests/00-crds", filepath.Base(crd)), "    categories:\n")) > 0 &&
			len(containing(t, filepath.Join("manifests/00-crds", filepath.Base(crd)), "    - millwright\n")) > 0
	}
	return false
}

func inSample(t *testing.T, kind schema.GroupVersionKind) bool {
	t.Helper()
	return len(containing(t, "manifests/samples/*/*.yaml", "kind: "+kind.Kind+"\n")) > 0
}

func inGuide(t *testing.T, kind schema.GroupVersionKind) bool {
	t.Helper()
	return len(containing(t, "manifests/samples/*/README.md", kind.Kind)) > 0
}

// required reports whether a controller of the table waits for the resource.
func required(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(Descriptors(), func(d Descriptor) bool { return slices.Contains(d.Requires, resource) })
}

// reconciled reports whether a controller of the table writes the status of the resource.
func reconciled(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(Descriptors(), func(d Descriptor) bool { return slices.Contains(d.Serves, resource.GroupResource()) })
}
