// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	applyfarm "millwright.dev/pkg/generated/applyconfiguration/farm/v1alpha"
)

func TestFarmKubectlApply(t *testing.T) {
	e := inSharedFarm(t)
	labels := strings.Replace(dolly, "name: dolly", "name: dolly\n  labels: {herd: north, coat: white}", 1)
	e.kubectl("apply", "-f", e.file(labels))
	e.kubectl("annotate", "llama", "dolly", "seen=today")
	if output := e.kubectl("apply", "-f", e.file(labels)); output != "llama.farm.example.com/dolly unchanged\n" {
		t.Errorf("kubectl apply of the same file: got %s, want unchanged", output)
	}
	heavier := strings.NewReplacer("31.4", "33", ", coat: white", "").Replace(labels)
	if output := e.kubectl("apply", "-f", e.file(heavier)); output != "llama.farm.example.com/dolly configured\n" {
		t.Errorf("kubectl apply of another file: got %s, want configured", output)
	}
	llama := e.llama("dolly")
	if llama.Spec.Weight != 33 || llama.Spec.Height != 0.5 || llama.Generation != 2 || llama.Annotations["seen"] != "today" {
		t.Errorf("got %+v, want the new weight only", llama)
	}
	if diff := cmp.Diff(map[string]string{"herd": "north"}, llama.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestFarmApplyConflict(t *testing.T) {
	e := inSharedFarm(t)
	apply := func(manager, file string, more ...string) []string {
		return append([]string{"apply", "--server-side", "--field-manager", manager, "-f", e.file(file)}, more...)
	}
	labelled := strings.Replace(dolly, "name: dolly", "name: dolly\n  labels: {herd: north}", 1)
	if output := e.kubectl(apply("shepherd", labelled)...); output != "llama.farm.example.com/dolly serverside-applied\n" {
		t.Errorf("kubectl apply: got %s", output)
	}
	heavier := strings.Replace(dolly, "31.4", "40", 1)
	const want = `Apply failed with 1 conflict: conflict with "shepherd": .spec.weight`
	if got := e.kubectlFails(apply("vet", heavier)...); !strings.Contains(got, want) {
		t.Errorf("kubectl apply with a conflict: got %s, want %q", got, want)
	}
	if weight := e.llama("dolly").Spec.Weight; weight != 31.4 {
		t.Errorf("after the conflict: got weight %v, want 31.4", weight)
	}
	e.kubectl(apply("vet", heavier, "--force-conflicts")...)
	llama := e.llama("dolly")
	if llama.Spec.Weight != 40 || llama.Labels["herd"] != "north" || llama.Generation != 2 {
		t.Errorf("after --force-conflicts: got %+v, want weight 40 and the label", llama)
	}
	managers := map[string]metav1.ManagedFieldsOperationType{}
	for _, entry := range llama.ManagedFields {
		managers[entry.Manager] = entry.Operation
		if entry.APIVersion != farmv1alpha.GroupVersion.String() {
			t.Errorf("managedFields: got version %s, want %s", entry.APIVersion, farmv1alpha.GroupVersion)
		}
	}
	applied := metav1.ManagedFieldsOperationApply
	if diff := cmp.Diff(map[string]metav1.ManagedFieldsOperationType{"shepherd": applied, "vet": applied}, managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}

	// A field that a manager leaves out is removed, unless another manager applies it too.
	e.kubectl(apply("shepherd", strings.Replace(dolly, "31.4", "40", 1))...)
	if llama := e.llama("dolly"); llama.Labels["herd"] != "" || llama.Spec.Weight != 40 || llama.Generation != 2 {
		t.Errorf("applied without the label: got %+v, want no label and weight 40", llama)
	}
}

func TestFarmApplyWithoutChange(t *testing.T) {
	e := inSharedFarm(t)
	configuration := applyfarm.Llama("dolly", e.namespace).WithSpec(applyfarm.LlamaSpec().WithWeight(31.4).WithHeight(0.5))
	created, err := e.llamas.Apply(t.Context(), configuration, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.llamas.Apply(t.Context(), configuration, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if created.ResourceVersion == "" || again.ResourceVersion != created.ResourceVersion || again.UID != created.UID {
		t.Errorf("resourceVersion after the second apply: got %s, want %s", again.ResourceVersion, created.ResourceVersion)
	}
	configuration.WithUID("0e5f")
	if _, err := e.llamas.Apply(t.Context(), configuration, metav1.ApplyOptions{FieldManager: "test", Force: true}); !apierrors.IsInvalid(err) {
		t.Errorf("apply with another UID: got %v, want invalid", err)
	}
}

func TestFarmPatchTypes(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly", labelled("herd", "north"), labelled("coat", "white")))
	for generation, test := range []struct {
		form, patch string
		want        farmv1alpha.LlamaSpec
		labels      map[string]string
	}{
		{"json", `[{"op":"test","path":"/spec/weight","value":31.4},{"op":"replace","path":"/spec/weight","value":32}]`,
			farmv1alpha.LlamaSpec{Weight: 32, Height: 0.5}, map[string]string{"herd": "north", "coat": "white"}},
		{"merge", `{"spec":{"height":0.6},"metadata":{"labels":{"coat":null}}}`,
			farmv1alpha.LlamaSpec{Weight: 32, Height: 0.6}, map[string]string{"herd": "north"}},
		{"strategic", `{"spec":{"weight":33},"metadata":{"labels":{"$patch":"replace","coat":"black"}}}`,
			farmv1alpha.LlamaSpec{Weight: 33, Height: 0.6}, map[string]string{"coat": "black"}},
	} {
		if output := e.kubectl("patch", "llama", "dolly", "--type", test.form, "-p", test.patch); output != "llama.farm.example.com/dolly patched\n" {
			t.Errorf("kubectl patch --type=%s: got %s, want patched", test.form, output)
		}
		llama := e.llama("dolly")
		if llama.Spec != test.want || llama.Generation != int64(generation+2) {
			t.Errorf("after a %s patch: got %+v of generation %d, want %+v of generation %d", test.form, llama.Spec, llama.Generation, test.want, generation+2)
		}
		if diff := cmp.Diff(test.labels, llama.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", test.form, diff)
		}
	}
	before := e.llama("dolly")
	if output := e.kubectl("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":33}}`); output != "llama.farm.example.com/dolly patched (no change)\n" {
		t.Errorf("patch that changes nothing: got %s", output)
	}
	for _, test := range []struct{ llama, form, patch, want string }{
		{"dolly", "json", `[{"op":"test","path":"/spec/weight","value":1}]`, "The request is invalid"},
		{"dolly", "merge", `{"spec":{"weight":-1}}`, `The Llama "dolly" is invalid: spec.weight: Invalid value: -1`},
		{"emma", "merge", `{"spec":{"weight":1}}`, `Error from server (NotFound): llamas.farm.example.com "emma" not found`},
	} {
		if got := e.kubectlFails("patch", "llama", test.llama, "--type="+test.form, "-p", test.patch); !strings.Contains(got, test.want) {
			t.Errorf("kubectl patch of %s with %s: got %s, want %q", test.llama, test.patch, got, test.want)
		}
	}
	_, err := e.llamas.Patch(t.Context(), "dolly", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"},"spec":{"weight":50}}`), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("patch with an old resourceVersion: got %v, want a conflict", err)
	}
	if after := e.llama("dolly"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("after refused patches: got %+v, want it unchanged", after)
	}
}

func TestFarmUpdateConflict(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	read := e.kubectl("get", "llama", "dolly", "-o", "yaml")
	edited := strings.Replace(read, "weight: 31.4", "weight: 40", 1)
	if output := e.kubectl("replace", "-f", e.file(edited)); output != "llama.farm.example.com/dolly replaced\n" {
		t.Errorf("kubectl replace: got %s", output)
	}
	got := e.kubectlFails("replace", "-f", e.file(strings.Replace(read, "weight: 31.4", "weight: 50", 1)))
	const conflict = `Operation cannot be fulfilled on llamas.farm.example.com "dolly": the object has been modified`
	if !strings.Contains(got, `Error from server (Conflict)`) || !strings.Contains(got, conflict) {
		t.Errorf("kubectl replace of an old version: got %s, want %q", got, conflict)
	}
	first := e.llama("dolly")
	if first.Spec.Weight != 40 || first.Generation != 2 {
		t.Errorf("after kubectl replace: got %+v, want weight 40 and generation 2", first)
	}
	e.kubectl("replace", "--force", "-f", e.file(dolly))
	if second := e.llama("dolly"); second.UID == first.UID || second.Spec.Weight != 31.4 || second.Generation != 1 {
		t.Errorf("after kubectl replace --force: got %+v, want a new Llama", second)
	}
	e.kubectl("wait", "--for=jsonpath={.spec.weight}=31.4", "--timeout=1m", "llama/dolly")
}
