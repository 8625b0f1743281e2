// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func sortedKeys[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

func (r *farmRun) merge(o *farmOperation, dry []string) {
	patch := one[any](r.random,
		map[string]any{"spec": map[string]any{"weight": one[any](r.random, 31.4, 77)}},
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"herd": one[any](r.random, "north", "south", nil)}}},
		map[string]any{"metadata": map[string]any{"finalizers": one[any](r.random, nil, []string{"example.com/shear"})}},
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": "merged"}}, "spec": map[string]any{"height": 0.7}},
		map[string]any{},
	)
	o.what, o.detail = "merge", fmt.Sprint(patch)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return p.patch(r, o.name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry})
	}
}

func (r *farmRun) mergeBadly(o *farmOperation, dry []string) {
	patches := map[string]func(*pasture) any{
		"merge a weight that is a word": func(*pasture) any { return map[string]any{"spec": map[string]any{"weight": "heavy"}} },
		"merge a wrong weight":          func(*pasture) any { return map[string]any{"spec": map[string]any{"weight": 1001}} },
		"merge no weight":               func(*pasture) any { return map[string]any{"spec": map[string]any{"weight": nil}} },
		"merge no spec":                 func(*pasture) any { return map[string]any{"spec": nil} },
		"merge a list":                  func(*pasture) any { return []string{"a"} },
		"merge into an old version": func(p *pasture) any {
			return map[string]any{"metadata": map[string]any{"resourceVersion": p.oldVersion(o.name)}, "spec": map[string]any{"weight": 88}}
		},
		"merge another name": func(*pasture) any { return map[string]any{"metadata": map[string]any{"name": "other"}} },
		"merge another UID":  func(*pasture) any { return map[string]any{"metadata": map[string]any{"uid": "0e5f"}} },
	}
	o.what = one(r.random, sortedKeys(patches)...)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return p.patch(r, o.name, types.MergePatchType, patches[o.what](p), metav1.PatchOptions{DryRun: dry})
	}
}

func (r *farmRun) jsonPatch(o *farmOperation, dry []string) {
	type step map[string]any
	patch := one(r.random,
		[]step{{"op": "replace", "path": "/spec/weight", "value": 90.5}},
		[]step{{"op": "test", "path": "/spec/weight", "value": 31.4}, {"op": "add", "path": "/metadata/labels", "value": map[string]string{"herd": "north"}}},
		[]step{{"op": "remove", "path": "/metadata/labels/herd"}},
		[]step{{"op": "remove", "path": "/spec/height"}},
		[]step{{"op": "add", "path": "/metadata/finalizers", "value": []string{"example.com/feed"}}},
		[]step{{"op": "remove", "path": "/metadata/finalizers"}},
		[]step{{"op": "jump", "path": "/spec/height"}},
	)
	o.what, o.detail = "patch", fmt.Sprint(patch)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return p.patch(r, o.name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dry, FieldManager: "patcher"})
	}
}

// strategic has the same effect as merge, because there are no lists.
func (r *farmRun) strategic(o *farmOperation, dry []string) {
	patch := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"coat": one[any](r.random, "white", nil)}},
		"spec":     map[string]any{"height": one[any](r.random, 0.8, 11)},
	}
	o.what, o.detail = "merge strategically", fmt.Sprint(patch)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		form := types.StrategicMergePatchType
		if p.kind.Kind == "Twin" {
			form = types.MergePatchType
		}
		return p.patch(r, o.name, form, patch, metav1.PatchOptions{DryRun: dry, FieldManager: "strategist"})
	}
}

func (r *farmRun) apply(o *farmOperation, dry []string) {
	manager, force := one(r.random, "shepherd", "vet"), r.random.IntN(3) == 0
	metadata, spec := map[string]any{"name": o.name}, map[string]any{}
	if r.random.IntN(2) == 0 {
		metadata["labels"] = map[string]any{"herd": one(r.random, "north", "south")}
	}
	if r.random.IntN(5) == 0 {
		metadata["finalizers"] = []any{"example.com/" + manager}
	}
	if r.random.IntN(4) > 0 {
		spec["weight"] = one[any](r.random, 31.4, 40)
	}
	if r.random.IntN(4) > 0 {
		spec["height"] = one[any](r.random, 0.5, 0.6, 12)
	}
	o.what, o.detail = "apply", fmt.Sprintf("%v %v by %s, force=%v", metadata, spec, manager, force)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		object := map[string]any{"apiVersion": p.kind.GroupVersion().String(), "kind": p.kind.Kind, "metadata": metadata, "spec": spec}
		return p.patch(r, o.name, types.ApplyPatchType, object, metav1.PatchOptions{DryRun: dry, FieldManager: manager, Force: &force})
	}
}

func (r *farmRun) remove(o *farmOperation, dry []string) {
	random, condition := r.again(), one(r.random, "", "", "", "of its UID", "of another UID", "of its version", "of an old version")
	o.what, o.detail = "delete it", condition
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		options := metav1.DeleteOptions{DryRun: dry, PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
		now := r.current(p, o.name, random())
		switch condition {
		case "of its UID":
			options.Preconditions = &metav1.Preconditions{UID: ptr.To(now.GetUID())}
		case "of another UID":
			options.Preconditions = &metav1.Preconditions{UID: ptr.To(types.UID("0e5f"))}
		case "of its version":
			options.Preconditions = &metav1.Preconditions{ResourceVersion: ptr.To(now.GetResourceVersion())}
		case "of an old version":
			options.Preconditions = &metav1.Preconditions{ResourceVersion: ptr.To(p.oldVersion(o.name))}
		}
		return nil, p.client.Delete(r.Context(), o.name, options)
	}
}

func (r *farmRun) clear(o *farmOperation, dry []string) {
	selector := one(r.random, "herd=north", "coat=white")
	o.what, o.detail = "delete all those", selector
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return nil, p.client.DeleteCollection(r.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{LabelSelector: selector})
	}
}
