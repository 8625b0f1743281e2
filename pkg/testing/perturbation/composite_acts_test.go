// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/perturbation"
)

var (
	composites = metacontroller.Resource("compositecontrollers").WithVersion(metacontroller.GroupVersion.Version)
	decorators = metacontroller.Resource("decoratorcontrollers").WithVersion(metacontroller.GroupVersion.Version)
	widgets    = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "widgets"}
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

const (
	// servedLabel is on the parents that the CompositeController or the DecoratorController selects.
	servedLabel = "served"
	// decoration is the label and the annotation that the hook desires of a target, and servedAnnotation is on the targets.
	decoration, servedAnnotation = "test.example.com/value", "test.example.com/served"
)

// childLabels are the labels of the selector, unless the selector is generated.
var childLabels = map[string]any{"part-of": name}

// hasFinalizer reports whether a parent has the finalizer of a CompositeController or a DecoratorController.
func hasFinalizer(parent metav1.Object) bool {
	return slices.ContainsFunc(parent.GetFinalizers(), func(finalizer string) bool {
		return strings.HasPrefix(finalizer, "metacontroller.io/")
	})
}

// doing is the Do of an act.
type doing = func(context.Context, *perturbation.User) error

func act(name string, do doing, until until) perturbation.Act {
	return perturbation.Act{Name: name, Do: do, Until: until}
}

// in does the steps in order.
func in(steps ...doing) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		for _, step := range steps {
			if err := step(ctx, user); err != nil {
				return err
			}
		}
		return nil
	}
}

// put creates an object of the run.
func put(resource schema.GroupVersionResource, kind, name string, metadata, fields map[string]any) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind}}
		for key, value := range fields {
			object.Object[key] = value
		}
		if metadata != nil {
			object.Object["metadata"] = metadata
		}
		object = object.DeepCopy() // many runs share the act
		object.SetName(name)
		_, err := user.Objects(resource).Create(ctx, object, metav1.CreateOptions{})
		return err
	}
}

// patch patches an object. The name "" stands for the CompositeController or the DecoratorController.
func patch(resource schema.GroupVersionResource, name string, fields map[string]any) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		_, err = user.Objects(resource).Patch(ctx, cmp.Or(name, user.RunName()), types.MergePatchType, body, metav1.PatchOptions{})
		return err
	}
}

func remove(resource schema.GroupVersionResource, name string, propagation metav1.DeletionPropagation) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		return user.Objects(resource).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	}
}

// serving is what differs between the CompositeControllers and DecoratorControllers of the scenarios.
type serving struct {
	finalize, customize, generateSelector, rolling bool
	// strategy is how children are applied; "" for the default.
	strategy metacontroller.ApplyStrategy
}

// hooks returns the hooks of a CompositeController or a DecoratorController.
func (h *widgetHook) hooks(with serving) map[string]any {
	hook := func(path, version string) map[string]any {
		return map[string]any{"version": version, "webhook": map[string]any{"url": h.URL + path}}
	}
	hooks := map[string]any{"sync": hook("/sync", "v1")}
	if with.finalize {
		hooks["finalize"] = hook("/finalize", "v1")
	}
	if with.customize {
		hooks["customize"] = hook("/customize", "v2")
	}
	return hooks
}

// served is the rule for the parents, and owned are those for what they own.
var (
	served = map[string]any{
		"apiVersion": widgets.GroupVersion().String(), "resource": widgets.Resource,
		"labelSelector": map[string]any{"matchLabels": map[string]any{servedLabel: "true"}},
	}
	owned = []any{
		map[string]any{"apiVersion": "v1", "resource": "configmaps", "updateStrategy": map[string]any{"method": "InPlace"}},
		map[string]any{"apiVersion": "v1", "resource": "secrets", "updateStrategy": map[string]any{"method": "Recreate"}},
	}
)

// serve creates the CompositeController of the run.
func (h *widgetHook) serve(with serving) doing {
	return putController(composites, "CompositeController", h.compositeSpec(with))
}

func (h *widgetHook) compositeSpec(with serving) spec {
	parents, children := served, owned
	if with.rolling {
		parents, children = maps.Clone(served), rolled
		parents["revisionHistory"] = map[string]any{"fieldPaths": []any{"spec.value"}}
	}
	return with.applied(spec{"generateSelector": with.generateSelector, "parentResource": parents, "childResources": children, "hooks": h.hooks(with)})
}

// decorate creates the DecoratorController of the run.
func (h *widgetHook) decorate(with serving) doing {
	return putController(decorators, "DecoratorController", h.decoratorSpec(with))
}

func (h *widgetHook) decoratorSpec(with serving) spec {
	target := maps.Clone(served)
	target["annotationSelector"] = map[string]any{"matchAnnotations": map[string]any{servedAnnotation: "true"}}
	return with.applied(spec{"resources": []any{target}, "attachments": owned, "hooks": h.hooks(with)})
}

// applied returns the spec with the strategy.
func (s serving) applied(fields spec) spec {
	if s.strategy != "" {
		fields["applyStrategy"] = string(s.strategy)
	}
	return fields
}

func putController(resource schema.GroupVersionResource, kind string, fields map[string]any) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		metadata := map[string]any{"labels": map[string]any{perturbation.RunLabel: user.Namespace}}
		return put(resource, kind, user.RunName(), metadata, map[string]any{"spec": fields})(ctx, user)
	}
}

// makeWidget creates the parent, with rules for its related objects.
func makeWidget(e end, related ...any) doing {
	return put(widgets, "Widget", name, map[string]any{"labels": map[string]any{servedLabel: "true"}, "annotations": map[string]any{servedAnnotation: "true"}},
		map[string]any{"spec": map[string]any{
			"configMaps": int64(e.configMaps), "secrets": int64(e.secrets), "value": e.value, "selector": map[string]any{"matchLabels": childLabels},
			"related": related,
		}})
}

// makeConfigMap creates a ConfigMap without an owner.
func makeConfigMap(name, value string, labels map[string]any) doing {
	return put(configMaps, "ConfigMap", name, map[string]any{"labels": labels}, map[string]any{"data": map[string]any{"value": value}})
}

func editWidget(fields spec) doing { return patch(widgets, name, map[string]any{"spec": fields}) }

func setLabel(resource schema.GroupVersionResource, name, label string, value any) doing {
	return patch(resource, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{label: value}}})
}

// serveAnnotation sets servedAnnotation of the target.
func serveAnnotation(value any) doing {
	return patch(widgets, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{servedAnnotation: value}}})
}

// awaitGone waits until there is no object of the name.
func awaitGone(resource schema.GroupVersionResource, name string) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience.Limit, true, func(ctx context.Context) (bool, error) {
			_, err := user.Get(ctx, resource, name)
			return apierrors.IsNotFound(err), nil
		})
		if err != nil {
			return fmt.Errorf("waiting until %s %s is deleted: %w", resource.Resource, name, err)
		}
		return nil
	}
}

func removeController(resource schema.GroupVersionResource) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		return user.Objects(resource).Delete(ctx, user.RunName(), metav1.DeleteOptions{})
	}
}

// flickerValue changes the value of the children and reverts it.
func flickerValue(ctx context.Context, user *perturbation.User) error {
	parent, err := user.Get(ctx, widgets, name)
	if apierrors.IsNotFound(err) {
		return nil // there may be none during a flicker
	}
	if err != nil {
		return err
	}
	value, _, _ := unstructured.NestedString(parent.Object, "spec", "value")
	return in(editWidget(spec{"value": "flicker"}), editWidget(spec{"value": value}))(ctx, user)
}
