// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// differsByNature has the responses in which built-in types differ from custom resources by design. Apart from these only the texts of
// messages differ. Custom resources have no strategic merge patch: they get a merge patch here, which has the same effect.
var differsByNature = map[string]struct{ why, twin, llama string }{
	"create one whose weight is a word": {"an object that does not fit a Go type is not decoded, and one that does not fit a schema is not valid", "422 Invalid", "400 BadRequest"},
}

// farmOperation is an operation on the object of a name, the same in each pasture.
type farmOperation struct {
	what   string
	name   string
	dryRun bool
	detail string
	do     func(*farmRun, *pasture) (*unstructured.Unstructured, error)
}

// String describes the operation.
func (o farmOperation) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s%s", o.name, o.what, o.detail, map[bool]string{true: " (dry run)"}[o.dryRun]))
}

var farmNames = []string{"amy", "bea", "cora"}

// draw returns the next random operation. All random numbers are drawn here, so that they are the same in each pasture.
func (r *farmRun) draw() farmOperation {
	o := farmOperation{name: farmNames[r.random.IntN(len(farmNames))], dryRun: r.random.IntN(8) == 0}
	var dry []string
	if o.dryRun {
		dry = []string{metav1.DryRunAll}
	}
	kinds := []func(*farmOperation, []string){
		r.create, r.create, r.createBadly, r.read, r.list, r.update, r.update, r.updateBadly, r.merge, r.merge, r.mergeBadly,
		r.jsonPatch, r.strategic, r.apply, r.apply, r.apply, r.remove, r.remove, r.clear,
	}
	kinds[r.random.IntN(len(kinds))](&o, dry)
	return o
}

// one returns a random one of several values.
func one[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// object returns a valid object, perhaps with a label and a finalizer.
func (p *pasture) object(name string, random *rand.Rand) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"weight": one[any](random, 31.4, int64(40), 1000.0), "height": one[any](random, 0.5, int64(1))},
	}}
	object.SetGroupVersionKind(p.kind)
	object.SetName(name)
	if random.IntN(2) == 0 {
		object.SetLabels(map[string]string{"herd": one(random, "north", "south")})
	}
	if random.IntN(4) == 0 {
		object.SetFinalizers([]string{"example.com/shear"})
	}
	return object
}

// again returns a source of random numbers that gives the same numbers in each pasture.
func (r *farmRun) again() func() *rand.Rand {
	seed := r.random.Uint64()
	return func() *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
}

func (r *farmRun) create(o *farmOperation, dry []string) {
	random := r.again()
	o.what = "create it"
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return p.client.Create(r.Context(), p.object(o.name, random()), metav1.CreateOptions{DryRun: dry})
	}
}

func (r *farmRun) createBadly(o *farmOperation, dry []string) {
	random := r.again()
	mistakes := map[string]func(*unstructured.Unstructured){
		"create one whose weight is a word": func(object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, "heavy", "spec", "weight")
		},
		"create one that weighs nothing": func(object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, int64(0), "spec", "weight")
		},
		"create one that is too high": func(object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, 10.5, "spec", "height")
		},
		"create one without a spec": func(object *unstructured.Unstructured) { delete(object.Object, "spec") },
		"create one with a field too many": func(object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, int64(4), "spec", "wheels")
		},
		"create one with a label that is none":     func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"a b": "c"}) },
		"create one with a version":                func(object *unstructured.Unstructured) { object.SetResourceVersion("1") },
		"create one with a finalizer that is none": func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"a b"}) },
		"create one of another namespace":          func(object *unstructured.Unstructured) { object.SetNamespace("default") },
	}
	o.what = one(r.random, sortedKeys(mistakes)...)
	validation := one(r.random, metav1.FieldValidationStrict, metav1.FieldValidationIgnore)
	o.detail = "(" + validation + ")"
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		object := p.object(o.name, random())
		mistakes[o.what](object)
		return p.client.Create(r.Context(), object, metav1.CreateOptions{DryRun: dry, FieldValidation: validation})
	}
}

func (r *farmRun) read(o *farmOperation, _ []string) {
	o.what, o.dryRun = "get it", false
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		return p.client.Get(r.Context(), o.name, metav1.GetOptions{})
	}
}

func (r *farmRun) list(o *farmOperation, _ []string) {
	options := metav1.ListOptions{
		LabelSelector: one(r.random, "", "herd=north", "herd!=north", "herd in (south)", "a b"),
		FieldSelector: one(r.random, "", "", "metadata.name="+o.name, "metadata.name!="+o.name, "spec.weight=40"),
	}
	o.what, o.dryRun, o.detail = "list those", true, fmt.Sprintf("%q %q", options.LabelSelector, options.FieldSelector)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		list, err := p.client.List(r.Context(), options)
		if err != nil {
			return nil, err
		}
		var items []any
		for i := range list.Items {
			items = append(items, plain(&list.Items[i]))
		}
		return &unstructured.Unstructured{Object: map[string]any{"items": items}}, nil
	}
}

// current returns the object as it is, or a new one of its name if it does not exist.
func (r *farmRun) current(p *pasture, name string, random *rand.Rand) *unstructured.Unstructured {
	object, err := p.client.Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		return p.object(name, random)
	}
	return object
}

func (r *farmRun) update(o *farmOperation, dry []string) {
	random, change := r.again(), one(r.random, "its weight", "its label", "its finalizers", "nothing", "its annotations and more")
	o.what, o.detail = "update", change
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		random := random()
		object := r.current(p, o.name, random)
		switch change {
		case "its weight":
			_ = unstructured.SetNestedField(object.Object, one[any](random, 50.5, int64(60)), "spec", "weight")
		case "its label":
			object.SetLabels(one(random, nil, map[string]string{"herd": "north"}, map[string]string{"herd": "south", "coat": "white"}))
		case "its finalizers":
			object.SetFinalizers(one(random, nil, []string{"example.com/shear"}, []string{"example.com/shear", "example.com/feed"}))
		case "its annotations and more":
			object.SetAnnotations(map[string]string{"note": fmt.Sprint(random.IntN(3))})
			object.SetGeneration(99) // only the server sets it
		}
		return p.client.Update(r.Context(), object, metav1.UpdateOptions{DryRun: dry, FieldManager: one(random, "", "editor")})
	}
}

func (r *farmRun) updateBadly(o *farmOperation, dry []string) {
	random := r.again()
	mistakes := map[string]func(*pasture, *unstructured.Unstructured){
		"update an old version":     func(p *pasture, object *unstructured.Unstructured) { object.SetResourceVersion(p.oldVersion(o.name)) },
		"update without a version":  func(_ *pasture, object *unstructured.Unstructured) { object.SetResourceVersion("") },
		"update one of another UID": func(_ *pasture, object *unstructured.Unstructured) { object.SetUID("0e5f") },
		"update to a wrong weight": func(_ *pasture, object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, -1.0, "spec", "weight")
		},
		"update its time": func(_ *pasture, object *unstructured.Unstructured) { object.SetCreationTimestamp(metav1.Unix(1, 0)) },
	}
	o.what = one(r.random, sortedKeys(mistakes)...)
	o.do = func(r *farmRun, p *pasture) (*unstructured.Unstructured, error) {
		object := r.current(p, o.name, random())
		mistakes[o.what](p, object)
		return p.client.Update(r.Context(), object, metav1.UpdateOptions{DryRun: dry})
	}
}

// oldVersion returns the version before the last one of the object.
func (p *pasture) oldVersion(name string) string {
	if seen := p.history[name]; len(seen) > 1 {
		return seen[len(seen)-2]
	}
	return "1"
}

// patch patches an object.
func (p *pasture) patch(r *farmRun, name string, form types.PatchType, patch any, options metav1.PatchOptions) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return p.client.Patch(r.Context(), name, form, body, options)
}
