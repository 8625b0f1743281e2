// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package llama

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"millwright.dev/pkg/apis/farm/v1alpha"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func llamaOf(weight, height float64) *v1alpha.Llama {
	return &v1alpha.Llama{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dolly"},
		Spec:       v1alpha.LlamaSpec{Weight: weight, Height: height},
	}
}

func TestMeasuresAreFiniteAndWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		weight, height float64
		want           []string
	}{
		{31.4, 0.5, nil},
		{1000, 10, nil},
		{math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64, nil},
		{0, 0.5, []string{"spec.weight: Invalid value: 0: must be more than 0 and at most 1000 kilograms"}},
		{1000.01, 0.5, []string{"spec.weight: Invalid value: 1000.01: must be more than 0 and at most 1000 kilograms"}},
		{31.4, -1, []string{"spec.height: Invalid value: -1: must be more than 0 and at most 10 metres"}},
		{math.NaN(), math.Inf(1), []string{
			"spec.weight: Invalid value: NaN: must be more than 0 and at most 1000 kilograms",
			"spec.height: Invalid value: +Inf: must be more than 0 and at most 10 metres",
		}},
	} {
		var got []string
		for _, fault := range newStrategy(runtime.NewScheme()).Validate(t.Context(), llamaOf(tc.weight, tc.height)) {
			got = append(got, fault.Error())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("weight %g, height %g: want (-), got (+):\n%s", tc.weight, tc.height, diff)
		}
	}
}

func TestOnlyTheSpecificationCountsTheGenerationUp(t *testing.T) {
	rules := newStrategy(runtime.NewScheme())
	created := llamaOf(1, 1)
	created.Generation = 7
	rules.PrepareForCreate(t.Context(), created)
	if created.Generation != 1 {
		t.Errorf("created with generation %d", created.Generation)
	}
	for _, tc := range []struct {
		updated *v1alpha.Llama
		want    int64
	}{{llamaOf(1, 1), 1}, {llamaOf(2, 1), 2}, {llamaOf(1, 2), 2}} {
		tc.updated.Labels, tc.updated.Generation = map[string]string{"a": "b"}, 100
		rules.PrepareForUpdate(t.Context(), tc.updated, created)
		if tc.updated.Generation != tc.want {
			t.Errorf("%+v: generation %d, want %d", tc.updated.Spec, tc.updated.Generation, tc.want)
		}
	}
}

func TestATableOfAPageLeadsToTheNext(t *testing.T) {
	remaining := int64(3)
	list := &v1alpha.LlamaList{
		ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "next", RemainingItemCount: &remaining},
		Items:    []v1alpha.Llama{*llamaOf(1, 2)},
	}
	made, err := table{}.ConvertToTable(t.Context(), list, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.ListMeta, made.ListMeta); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"dolly", 1.0, 2.0, "<unknown>"}, made.Rows[0].Cells); diff != "" || len(made.ColumnDefinitions) != 4 {
		t.Errorf("want (-), got (+):\n%s\ncolumns %v", diff, made.ColumnDefinitions)
	}
	bare, err := table{}.ConvertToTable(t.Context(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil || bare.ColumnDefinitions != nil {
		t.Errorf("without headers: %v, %v", bare, err)
	}
	if _, err := (table{}).ConvertToTable(t.Context(), &metav1.Status{}, nil); err == nil {
		t.Error("a Status is not a Llama")
	}
}

func TestALlamaIsWrittenAsACustomResourceIs(t *testing.T) {
	var rules rest.RESTUpdateStrategy = newStrategy(runtime.NewScheme())
	if rules.AllowCreateOnUpdate(t.Context()) || rules.AllowUnconditionalUpdate(t.Context()) || !rules.NamespaceScoped() {
		t.Error("PUT creates, or overwrites what it has not seen, or Llamas are in no namespace")
	}
}
