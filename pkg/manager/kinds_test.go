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

func TestEveryKindHasItsCRDItsSampleItsGuideAndItsRights(t *testing.T) {
	for _, kind := range ourKinds(t) {
		t.Run(kind.Kind, func(t *testing.T) {
			crds := containing(t, "manifests/00-crds/*.yaml", "    kind: "+kind.Kind+"\n")
			if len(crds) != 1 {
				t.Fatalf("%s has %d CRDs, want one: run make generate", kind, len(crds))
			}
			plural, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(crds[0]), kind.Group+"_"), ".")
			for what, missing := range map[string]bool{
				"a place in manifests/kustomization.yaml":                               len(containing(t, "manifests/kustomization.yaml", "- 00-crds/"+filepath.Base(crds[0])+"\n")) == 0,
				"a sample in manifests/samples":                                         len(containing(t, "manifests/samples/*/*.yaml", "kind: "+kind.Kind+"\n")) == 0,
				"a guide, a README.md in manifests/samples that speaks of it":           len(containing(t, "manifests/samples/*/README.md", kind.Kind)) == 0,
				"RBAC markers in the doc.go of a controller":                            len(containing(t, "pkg/controller/*/doc.go", fmt.Sprintf("+kubebuilder:rbac:groups=%s,resources=%s,", kind.Group, plural))) == 0,
				"a place in the table: no controller requires its resource to be there": !required(kind.GroupVersion().WithResource(plural)),
			} {
				if missing {
					t.Errorf("%s lacks %s", kind, what)
				}
			}
		})
	}
}

// required tells whether a controller of the table waits for the resource.
func required(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(Descriptors(), func(d Descriptor) bool { return slices.Contains(d.Requires, resource) })
}
