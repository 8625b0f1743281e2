// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

const (
	// applyParents is the number of parents of each strategy and method, and applySteps that of what their hook desires one after the other.
	applyParents, applySteps = 5, 8
	// switching is the strategy of parents whose CompositeController changes it at random.
	switching = "switching"
)

var (
	applyStrategies = []string{string(v1alpha1.ApplyDynamic), string(v1alpha1.ApplyServerSide), switching}
	applyMethods    = []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateInPlace, v1alpha1.ChildUpdateRecreate}
	appliedKinds    = []string{"ConfigMap", "Deployment.apps/v1"}
)

// Random histories end in the same children whichever strategy applies them, and whenever the strategy is switched. Another client changes children, too.
func TestCompositeStrategiesApplyTheSame(t *testing.T) {
	e := inSharedApplyingEngine(t)
	seed, _ := firstSeed(t)
	t.Logf("%s=%d repeats the histories", seedVariable, seed)
	h := &applyHistories{engineEnv: e, seed: uint64(seed), parents: map[string]appliedParent{}}
	e.hook.Answers(h.answer)
	for _, strategy := range applyStrategies {
		for _, method := range applyMethods {
			for history := range applyParents {
				p := appliedParent{strategy, method, history}
				h.parents[p.name(e)] = p
			}
		}
	}
	for _, strategy := range applyStrategies {
		for _, method := range applyMethods {
			h.serve(strategy, method)
		}
	}
	for step := range int64(applySteps) {
		if step > 0 {
			for name, p := range h.parents {
				h.disturb(name, p, step)
			}
			h.settle()
			h.switchStrategies(step)
		}
		for name := range h.parents {
			e.change(widget, name, fmt.Sprintf("{spec: {step: %d}}", step))
		}
		h.settle()
		h.compare(step)
	}
}

// applyHistories are parents in groups of one history each: they differ in the strategy only.
type applyHistories struct {
	*engineEnv
	seed    uint64
	parents map[string]appliedParent
}

// appliedParent is a parent with a ConfigMap and a Deployment of its name.
type appliedParent struct {
	strategy string
	method   v1alpha1.ChildUpdateMethod
	history  int
}

// controller returns the name of the parent's CompositeController.
func (p appliedParent) controller(e *engineEnv) string {
	return fmt.Sprintf("%s-%d-%s", e.name, slices.Index(applyStrategies, p.strategy), strings.ToLower(string(p.method)))
}

func (p appliedParent) name(e *engineEnv) string {
	return fmt.Sprintf("%s-%d", p.controller(e), p.history)
}

// serve creates a CompositeController of a strategy, and its parents.
func (h *applyHistories) serve(strategy string, method v1alpha1.ChildUpdateMethod) {
	h.Helper()
	name := appliedParent{strategy: strategy, method: method}.controller(h.engineEnv)
	spec := object(h, `
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets, labelSelector: {matchLabels: {%[1]s: %[2]s}}}
childResources:
- {apiVersion: v1, resource: configmaps, updateStrategy: {method: %[3]s}}
- {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: %[3]s}}
hooks: {sync: {webhook: {url: %[4]s}}}`, testLabel, name, method, h.hook.URL)
	if strategy != switching {
		spec.Object["applyStrategy"] = strategy
	}
	cc := h.composite(name, configMaps)
	cc.Object["spec"] = spec.Object
	if _, err := h.at(composite).Create(h.Context(), cc, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
	h.cleanUp(composite, name)
	for history := range applyParents {
		h.parent(appliedParent{strategy, method, history}.name(h.engineEnv), fmt.Sprintf("{metadata: {labels: {%s: %s}}, spec: {step: 0}}", testLabel, name))
	}
}

// random returns the source of what happens in a step of a history.
func (h *applyHistories) random(p appliedParent, step int64) *rand.Rand {
	return rand.New(rand.NewPCG(h.seed, uint64(step)<<16|uint64(p.history)<<8|uint64(len(p.method))))
}

// answer is what the hook desires of a parent. The status has what the hook saw.
func (h *applyHistories) answer(call *hookCall) any {
	name := (&unstructured.Unstructured{Object: call.Parent}).GetName()
	number, _, _ := unstructured.NestedFloat64(call.Parent, "spec", "step")
	step := int64(number)
	seen := fmt.Sprint(step)
	for _, children := range []map[string]any{call.Children["ConfigMap.v1"], call.Children["Deployment.apps/v1"]} {
		child, _ := children[name].(tree)
		seen += " " + (&unstructured.Unstructured{Object: child}).GetResourceVersion()
	}
	return tree{"status": tree{"seen": seen}, "children": h.desired(name, step)}
}

// desired returns the children of a step, from few keys and values. Lists are always there: where one is gone from the answer, dynamic apply removes the
// elements of others, too.
func (h *applyHistories) desired(name string, step int64) list {
	random := h.random(h.parents[name], step)
	value := func() string { return fmt.Sprint(random.IntN(3)) }
	some := func(keys ...string) tree {
		chosen := tree{"always": value()}
		for _, key := range keys {
			if random.IntN(2) == 0 {
				chosen[key] = value()
			}
		}
		return chosen
	}
	env, ports := list{}, list{tree{"containerPort": 1}}
	variables := some("b", "c")
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, tree{"name": name, "value": variables[name]})
	}
	tcp := tree{"containerPort": 53, "protocol": "TCP", "name": "t" + value()}
	for _, port := range []tree{{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}, tcp} {
		if random.IntN(2) == 0 {
			ports = append(ports, port)
		}
	}
	labels := tree{"app": "a"}
	children := list{tree{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": tree{"name": name, "labels": some("b", "c")}, "spec": tree{
		"replicas": 0, "selector": tree{"matchLabels": labels}, "template": tree{"metadata": tree{"labels": labels},
			"spec": tree{"containers": list{tree{"name": "c", "image": "one", "env": env, "ports": ports}}}}}}}
	if random.IntN(5) > 0 {
		children = append(children, tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": name, "annotations": some("b", "c")}, "data": some("b", "c")})
	}
	return children
}

// disturb changes children as another client: what the hook desires, or what it does not desire in any step. What both desire is not removed with server-side
// apply.
func (h *applyHistories) disturb(name string, p appliedParent, step int64) {
	h.Helper()
	random := h.random(p, -step)
	value := fmt.Sprint(random.IntN(3))
	key := []string{"always", "theirs"}[random.IntN(2)]
	var err error
	switch kind := appliedKinds[random.IntN(2)]; random.IntN(6) {
	case 0:
		h.remove(kind, name)
	case 1:
		_, err = h.at("ConfigMap").Patch(h.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value), metav1.PatchOptions{})
	case 2:
		_, err = h.at(kind).Patch(h.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	case 3:
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":%q,"value":%q}]}]}}}}`, key, value)
		_, err = h.at("Deployment.apps/v1").Patch(h.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	case 4:
		force := true
		patch := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"annotations":{"theirs":%q}}}`, name, value)
		_, err = h.at("Deployment.apps/v1").Patch(h.Context(), name, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "theirs", Force: &force})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		h.Fatalf("changing a child of %s: %v", name, err)
	}
}

// switchStrategies gives each CompositeController of the strategy switching another strategy, or the same.
func (h *applyHistories) switchStrategies(step int64) {
	h.Helper()
	for _, method := range applyMethods {
		strategy := applyStrategies[h.random(appliedParent{method: method, history: applyParents}, step).IntN(2)]
		h.change(composite, appliedParent{strategy: switching, method: method}.controller(h.engineEnv), fmt.Sprintf("{spec: {applyStrategy: %s}}", strategy))
	}
}

// settle waits until the hook saw each parent and its children as they are now, and the engine has written its status: it does that after all other writes of
// a sync.
func (h *applyHistories) settle() {
	h.Helper()
	h.eventually(func() string {
		parents := h.list(widget) // before the children
		children := h.children()
		for name := range h.parents {
			step, _, _ := unstructured.NestedInt64(parents[name].Object, "spec", "step")
			want := fmt.Sprint(step)
			for _, kind := range appliedKinds {
				want += " " + children[kind][name].GetResourceVersion()
			}
			if got, _, _ := unstructured.NestedString(parents[name].Object, "status", "seen"); got != want {
				return fmt.Sprintf("%s: the hook saw step and children %q, want %q", name, got, want)
			}
		}
		return ""
	})
}

// list returns the objects of a kind. One that does not exist is empty.
func (h *applyHistories) list(kind string) map[string]*unstructured.Unstructured {
	h.Helper()
	objects, err := h.at(kind).List(h.Context(), metav1.ListOptions{})
	if err != nil {
		h.Fatal(err)
	}
	named := map[string]*unstructured.Unstructured{}
	for name := range h.parents {
		named[name] = &unstructured.Unstructured{Object: tree{}}
	}
	for i := range objects.Items {
		named[objects.Items[i].GetName()] = &objects.Items[i]
	}
	return named
}

func (h *applyHistories) children() map[string]map[string]*unstructured.Unstructured {
	h.Helper()
	children := map[string]map[string]*unstructured.Unstructured{}
	for _, kind := range appliedKinds {
		children[kind] = h.list(kind)
	}
	return children
}

// compare fails unless the children of a history are the same with all strategies.
func (h *applyHistories) compare(step int64) {
	h.Helper()
	children := h.children()
	for name, p := range h.parents {
		dynamic := appliedParent{applyStrategies[0], p.method, p.history}.name(h.engineEnv)
		for _, kind := range appliedKinds {
			if diff := gocmp.Diff(essence(children[kind][dynamic]), essence(children[kind][name])); diff != "" {
				h.Fatalf("step %d of history %d, %s: %s differs (-%s +%s):\n%s", step, p.history, p.method, kind, applyStrategies[0], p.strategy, diff)
			}
		}
	}
}

// essence returns what must be the same of children.
func essence(child *unstructured.Unstructured) tree {
	o := child.DeepCopy()
	for _, annotation := range []string{lastApplied, appliedHash, "deployment.kubernetes.io/revision"} {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", annotation)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "labels", "controller-uid")
	if annotations := o.GetAnnotations(); len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	for _, accident := range []string{"name", "managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "ownerReferences"} {
		unstructured.RemoveNestedField(o.Object, "metadata", accident)
	}
	delete(o.Object, "status")
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	for _, container := range containers { // the strategies add elements at other places
		for _, elements := range container.(tree) {
			if elements, ok := elements.(list); ok {
				slices.SortFunc(elements, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return o.Object
}
