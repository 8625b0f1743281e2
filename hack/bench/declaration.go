// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// The names of the controllers that are engines.
const (
	compositeName = "compositecontroller"
	decoratorName = "decoratorcontroller"
)

// declaration is what an engine serves: a CompositeController, or a DecoratorController whose targets are the parents.
type declaration struct {
	// controller is the name of the engine.
	controller string
	object     func(h *hosting) runtime.Object
	// markOf returns the value that a parent has got, or "".
	markOf func(parent *unstructured.Unstructured) string
}

// flagsOf returns those of an operator that runs one controller, and nothing else.
func flagsOf(controller string) []string { return []string{"--controllers=" + controller} }

// composite declares a CompositeController, whose parents have children. The query is that of the hook's URL.
func composite(query string) declaration {
	return declaration{compositeName, func(h *hosting) runtime.Object {
		c := h.compositeController()
		c.Spec.ChildResources = []v1alpha1.CompositeControllerChildResourceRule{{
			ResourceRule:   configMaps,
			UpdateStrategy: &v1alpha1.CompositeControllerChildUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
		}}
		c.Spec.Hooks = &v1alpha1.CompositeControllerHooks{Sync: h.hookAt(syncPath + query)}
		return c
	}, statusOf}
}

// customized declares a CompositeController whose parents have related objects, and no children: ConfigMaps are watched for the former alone.
func customized(query string) declaration {
	return declaration{compositeName, func(h *hosting) runtime.Object {
		c := h.compositeController()
		c.Spec.Hooks = &v1alpha1.CompositeControllerHooks{Sync: h.hookAt(syncPath + query), Customize: h.hookAt(customizePath)}
		return c
	}, statusOf}
}

// decorator declares a DecoratorController. Its targets get a label, and attachments instead of children.
func decorator() declaration {
	return declaration{decoratorName, func(h *hosting) runtime.Object {
		return &v1alpha1.DecoratorController{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "DecoratorController"},
			ObjectMeta: metav1.ObjectMeta{Name: h.namespace.name},
			Spec: v1alpha1.DecoratorControllerSpec{
				Resources: []v1alpha1.DecoratorControllerResourceRule{{ResourceRule: parentRule, LabelSelector: &metav1.LabelSelector{MatchLabels: h.stage}}},
				Attachments: []v1alpha1.DecoratorControllerAttachmentRule{{
					ResourceRule:   configMaps,
					UpdateStrategy: &v1alpha1.DecoratorControllerAttachmentUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
				}},
				Hooks: &v1alpha1.DecoratorControllerHooks{Sync: h.hookAt(syncPath)},
			},
		}
	}, labelOf}
}

var (
	configMaps = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"}
	parentRule = v1alpha1.ResourceRule{APIVersion: parentResource.GroupVersion().String(), Resource: parentResource.Resource}
)

func (h *hosting) compositeController() *v1alpha1.CompositeController {
	return &v1alpha1.CompositeController{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CompositeController"},
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace.name},
		Spec: v1alpha1.CompositeControllerSpec{
			ParentResource: v1alpha1.CompositeControllerParentResourceRule{
				ResourceRule:  parentRule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: h.stage},
			},
		},
	}
}

func (h *hosting) hookAt(path string) *v1alpha1.Hook {
	return &v1alpha1.Hook{Webhook: &v1alpha1.Webhook{URL: ptr.To("http://" + h.hookAddress + path)}}
}

// statusOf returns the value in a status that was written about the present spec.
func statusOf(parent *unstructured.Unstructured) (value string) {
	if observed, found, err := unstructured.NestedInt64(parent.Object, "status", "observedGeneration"); found && err == nil && observed == parent.GetGeneration() {
		value, _, _ = unstructured.NestedString(parent.Object, "status", "value")
	}
	return value
}

// labelOf returns the value in the label of a target, which is written after its attachments.
func labelOf(parent *unstructured.Unstructured) string { return parent.GetLabels()[decoratedLabel] }

// declare creates what the engine serves, and returns how it is deleted: without waiting, since its hooks have no finalize.
func (h *hosting) declare(ctx context.Context) (remove func() error, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(h.object(h))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: fields}
	declarations := h.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(h.controller + "s"))
	if _, err := declarations.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return func() error {
		if err := declarations.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	}, nil
}
