// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// tree decodes YAML as apimachinery decodes JSON.
func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	decoded := map[string]any{}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return decoded
}

// child completes a tree to an object in the cluster.
func child(fields map[string]any) map[string]any {
	object, metadata := map[string]any{}, map[string]any{}
	maps.Copy(object, fields)
	given, _ := fields["metadata"].(map[string]any)
	maps.Copy(metadata, given)
	metadata["name"] = "c"
	object["apiVersion"], object["kind"], object["metadata"] = "example.com/v1", "Child", metadata
	return object
}

// recording sets the annotation as the engine does, and what only the API server sets.
func recording(t testing.TB, observed, applied map[string]any) map[string]any {
	t.Helper()
	text, err := record(child(applied))
	if err != nil {
		t.Fatal(err)
	}
	return stored(child(observed), text)
}

// stored is the object as the API server has it, with this annotation.
func stored(object map[string]any, annotation string) map[string]any {
	metadata := object["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = "u-1", "7"
	if annotation != "" {
		annotations := map[string]any{LastAppliedAnnotation: annotation}
		maps.Copy(annotations, annotationsOf(metadata))
		metadata["annotations"] = annotations
	}
	return object
}

// update calls Update, and fails if it has touched what it was given.
func update(t testing.TB, observed, desired map[string]any) (Verdict, error) {
	t.Helper()
	observedBefore, desiredBefore := runtime.DeepCopyJSON(observed), runtime.DeepCopyJSON(desired)
	verdict, err := Update(observed, desired)
	if diff := cmp.Diff(observedBefore, observed); diff != "" {
		t.Fatalf("the observed object has been changed:\n%s", diff)
	}
	if diff := cmp.Diff(desiredBefore, desired); diff != "" {
		t.Fatalf("the desired object has been changed:\n%s", diff)
	}
	return verdict, err
}

// mergeCase is a vector: fields of an object besides its identity.
type mergeCase struct{ observed, applied, desired, want string }

// testMerges checks each vector, that its result is stable, and that the verdict reports whether it differs.
func testMerges(t *testing.T, cases map[string]mergeCase) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if test.applied == "" {
				test.applied = test.desired
			}
			desired := child(tree(t, test.desired))
			observed := recording(t, tree(t, test.observed), tree(t, test.applied))
			verdict, err := update(t, observed, desired)
			if err != nil {
				t.Fatal(err)
			}
			want := recording(t, tree(t, test.want), tree(t, test.desired))
			if diff := cmp.Diff(want, verdict.Object); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if differs := !cmp.Equal(observed, want); verdict.Differs != differs {
				t.Errorf("differs: %v, want %v", verdict.Differs, differs)
			}
			again, err := update(t, verdict.Object, desired)
			if err != nil || again.Differs || again.DesiredChanged {
				t.Errorf("merging again: %v, differs %v:\n%s", err, again.Differs, cmp.Diff(verdict.Object, again.Object))
			}
		})
	}
}
