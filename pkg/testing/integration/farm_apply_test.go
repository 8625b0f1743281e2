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
		t.Errorf("the same file again: %s", output)
	}
	heavier := strings.NewReplacer("31.4", "33", ", coat: white", "").Replace(labels)
	if output := e.kubectl("apply", "-f", e.file(heavier)); output != "llama.farm.example.com/dolly configured\n" {
		t.Errorf("another file: %s", output)
	}
	llama := e.llama("dolly")
	if llama.Spec.Weight != 33 || llama.Spec.Height != 0.5 || llama.Generation != 2 || llama.Annotations["seen"] != "today" {
		t.Errorf("it is %+v", llama)
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
	if output := e.kubectl(apply("shepherd", strings.Replace(dolly, "name: dolly", "name: dolly\n  labels: {herd: north}", 1))...); output != "llama.farm.example.com/dolly serverside-applied\n" {
		t.Errorf("it prints: %s", output)
	}
	heavier := strings.Replace(dolly, "31.4", "40", 1)
	said := e.kubectlFails(apply("vet", heavier)...)
	for _, want := range []string{`Apply failed with 1 conflict: conflict with "shepherd": .spec.weight`} {
		if !strings.Contains(said, want) {
			t.Errorf("the refusal does not say %q: %s", want, said)
		}
	}
	if weight := e.llama("dolly").Spec.Weight; weight != 31.4 {
		t.Errorf("it was refused, and the weight is %v", weight)
	}
	e.kubectl(apply("vet", heavier, "--force-conflicts")...)
	llama := e.llama("dolly")
	if llama.Spec.Weight != 40 || llama.Labels["herd"] != "north" || llama.Generation != 2 {
		t.Errorf("after it was forced it is %+v", llama)
	}
	managers := map[string]metav1.ManagedFieldsOperationType{}
	for _, entry := range llama.ManagedFields {
		managers[entry.Manager] = entry.Operation
		if entry.APIVersion != farmv1alpha.GroupVersion.String() {
			t.Errorf("fields are managed in %s", entry.APIVersion)
		}
	}
	if diff := cmp.Diff(map[string]metav1.ManagedFieldsOperationType{"shepherd": metav1.ManagedFieldsOperationApply, "vet": metav1.ManagedFieldsOperationApply}, managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}

	// What a manager leaves out goes if nobody else wants it, and stays if somebody does.
	e.kubectl(apply("shepherd", strings.Replace(dolly, "31.4", "40", 1))...)
	if llama := e.llama("dolly"); llama.Labels["herd"] != "" || llama.Spec.Weight != 40 || llama.Generation != 2 {
		t.Errorf("without the label it is %+v", llama)
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
		t.Errorf("it was version %s, and is %s", created.ResourceVersion, again.ResourceVersion)
	}
	configuration.WithUID("0e5f")
	if _, err := e.llamas.Apply(t.Context(), configuration, metav1.ApplyOptions{FieldManager: "test", Force: true}); !apierrors.IsInvalid(err) {
		t.Errorf("applied to one of another UID: %v", err)
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
		{"json", `[{"op":"test","path":"/spec/weight","value":31.4},{"op":"replace","path":"/spec/weight","value":32}]`, farmv1alpha.LlamaSpec{Weight: 32, Height: 0.5}, map[string]string{"herd": "north", "coat": "white"}},
		{"merge", `{"spec":{"height":0.6},"metadata":{"labels":{"coat":null}}}`, farmv1alpha.LlamaSpec{Weight: 32, Height: 0.6}, map[string]string{"herd": "north"}},
		{"strategic", `{"spec":{"weight":33},"metadata":{"labels":{"$patch":"replace","coat":"black"}}}`, farmv1alpha.LlamaSpec{Weight: 33, Height: 0.6}, map[string]string{"coat": "black"}},
	} {
		if output := e.kubectl("patch", "llama", "dolly", "--type", test.form, "-p", test.patch); output != "llama.farm.example.com/dolly patched\n" {
			t.Errorf("%s: %s", test.form, output)
		}
		llama := e.llama("dolly")
		if llama.Spec != test.want || llama.Generation != int64(generation+2) {
			t.Errorf("%s: %+v of generation %d", test.form, llama.Spec, llama.Generation)
		}
		if diff := cmp.Diff(test.labels, llama.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", test.form, diff)
		}
	}
	before := e.llama("dolly")
	if output := e.kubectl("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":33}}`); output != "llama.farm.example.com/dolly patched (no change)\n" {
		t.Errorf("a patch that changes nothing: %s", output)
	}
	if said := e.kubectlFails("patch", "llama", "dolly", "--type=json", "-p", `[{"op":"test","path":"/spec/weight","value":1}]`); !strings.Contains(said, "The request is invalid") {
		t.Errorf("a test that fails: %s", said)
	}
	if said := e.kubectlFails("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":-1}}`); !strings.Contains(said, `The Llama "dolly" is invalid: spec.weight: Invalid value: -1`) {
		t.Errorf("a weight that cannot be: %s", said)
	}
	if said := e.kubectlFails("patch", "llama", "emma", "--type=merge", "-p", `{"spec":{"weight":1}}`); !strings.Contains(said, `Error from server (NotFound): llamas.farm.example.com "emma" not found`) {
		t.Errorf("a Llama that is not there: %s", said)
	}
	_, err := e.llamas.Patch(t.Context(), "dolly", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"},"spec":{"weight":50}}`), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	if after := e.llama("dolly"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("something has changed it to %+v", after)
	}
}

func TestFarmUpdateConflict(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("dolly"))
	read := e.kubectl("get", "llama", "dolly", "-o", "yaml")
	edited := strings.Replace(read, "weight: 31.4", "weight: 40", 1)
	if output := e.kubectl("replace", "-f", e.file(edited)); output != "llama.farm.example.com/dolly replaced\n" {
		t.Errorf("it prints: %s", output)
	}
	said := e.kubectlFails("replace", "-f", e.file(strings.Replace(read, "weight: 31.4", "weight: 50", 1)))
	if !strings.Contains(said, `Error from server (Conflict)`) || !strings.Contains(said, `Operation cannot be fulfilled on llamas.farm.example.com "dolly": the object has been modified`) {
		t.Errorf("of an old version: %s", said)
	}
	first := e.llama("dolly")
	if first.Spec.Weight != 40 || first.Generation != 2 {
		t.Errorf("it is %+v", first)
	}
	e.kubectl("replace", "--force", "-f", e.file(dolly))
	if second := e.llama("dolly"); second.UID == first.UID || second.Spec.Weight != 31.4 || second.Generation != 1 {
		t.Errorf("made anew it is %+v", second)
	}
	e.kubectl("wait", "--for=jsonpath={.spec.weight}=31.4", "--timeout=1m", "llama/dolly")
}
