// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/testing/metricstest"
)

func TestObjectMetrics(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for name, ready := range map[string]metav1.Condition{
		"a": {Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServing},
		"b": {Status: metav1.ConditionFalse, Reason: "HookUnreachable"},
		"c": {Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonForbidden},
		"d": {Status: metav1.ConditionFalse, Reason: "HookUnreachable"},
	} {
		cc := &v1alpha1.CompositeController{ObjectMeta: metav1.ObjectMeta{Name: name}}
		ready.Type = v1alpha1.ConditionReady
		cc.Status.Conditions = []metav1.Condition{ready}
		if err := store.Add(cc); err != nil {
			t.Fatal(err)
		}
	}
	declarations[*v1alpha1.CompositeController]{Source[*v1alpha1.CompositeController]{
		Kind: parent.Composite, Informer: syncedInformer{store: store}, From: parent.FromComposite,
	}}.count(t.Context(), func(d *parent.Declaration) []metav1.Condition { return d.Status.Conditions })
	if diff := cmp.Diff(map[string]float64{"Ready": 1, "HookUnreachable": 2, "Forbidden": 1}, metricstest.States(t, "CompositeController")); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// syncedInformer is an informer that has synced.
type syncedInformer struct {
	cache.TypedSharedIndexInformer[*v1alpha1.CompositeController]
	store cache.Store
}

func (f syncedInformer) HasSynced() bool       { return true }
func (f syncedInformer) GetStore() cache.Store { return f.store }

func TestReadyReasons(t *testing.T) {
	want := []string{parent.ReasonUnselected}
	for file, prefix := range map[string]string{"../../hook/errors.go": "Reason", "../../apis/metacontroller/v1alpha1/compositecontroller_types.go": "Reason"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			value, ok := node.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(value.Names[0].Name, prefix) || len(value.Values) != 1 {
				return true
			}
			reason, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if reason != v1alpha1.ReasonServing { // with which it is Ready
				want = append(want, reason)
			}
			return true
		})
	}
	if len(want) < 20 {
		t.Fatalf("%d reasons: this test looks in the wrong place", len(want))
	}
	got := slices.Sorted(slices.Values(readyReasons))
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-declared +states):\n%s", diff)
	}
}
