// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// end is the state of all objects in which an act is done.
type end struct {
	// decorator is true if a DecoratorController is served, not a CompositeController.
	decorator bool
	// The numbers of the parent's children, and the value of each.
	configMaps, secrets int
	value               string
	// finalizer is on the CompositeController or DecoratorController, and on the parent unless that is let go.
	finalizer, letGo bool
	// noParent and noController are true if the object is deleted.
	noParent, noController bool
	// reason is that of the condition Ready of the CompositeController or DecoratorController. Default: Serving.
	reason string
	// waits is true if the parent has changed and is not synced: its status describes an earlier generation.
	waits bool
	// others are objects with the name of a child that the parent does not own, in the format of childState.
	others []string
}

// reached reports whether all objects are in this state.
func (e end) reached(ctx context.Context, user *perturbation.User) (bool, error) {
	err := e.controllerIs(ctx, user)
	parent, getErr := user.Get(ctx, widgets, name)
	switch {
	case apierrors.IsNotFound(getErr) && e.noParent:
		parent = &unstructured.Unstructured{}
	case getErr != nil:
		return false, getErr
	case e.noParent:
		return false, errors.New("the parent still exists")
	default:
		err = errors.Join(err, e.parentIs(parent))
	}
	err = errors.Join(err, e.childrenAre(ctx, user, parent))
	return err == nil, err
}

func (e end) controllerIs(ctx context.Context, user *perturbation.User) error {
	// Every namespace gets this ConfigMap some time after its creation.
	if _, err := user.Get(ctx, configMaps, "kube-root-ca.crt"); err != nil {
		return err
	}
	resource := composites
	if e.decorator {
		resource = decorators
	}
	object, err := user.Get(ctx, resource, user.RunName())
	if e.noController && apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	declared, err := typed[struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}](object)
	if err != nil {
		return err
	}
	status := declared.Status
	ready := meta.FindStatusCondition(status.Conditions, metacontroller.ConditionReady)
	if e.noController || status.ObservedGeneration != object.GetGeneration() || ready == nil || ready.Reason != cmp.Or(e.reason, metacontroller.ReasonServing) {
		return fmt.Errorf("the %s exists with the status %+v", object.GetKind(), status)
	}
	return finalizerIs(object, e.finalizer)
}

// finalizerIs returns an error if a parent or what serves it does not have the wanted finalizer, or has an unwanted one.
func finalizerIs(object *unstructured.Unstructured, wanted bool) error {
	if has := len(object.GetFinalizers()) > 0; has != wanted {
		return fmt.Errorf("got the finalizers %q of %s, want one: %t", object.GetFinalizers(), object.GetKind(), wanted)
	}
	return nil
}

func (e end) parentIs(parent *unstructured.Unstructured) error {
	if e.decorator {
		want := e.value + "/" + e.value + "/" + e.value
		if e.letGo && e.finalizer {
			want = "//"
		}
		if got := decorationOf(parent); got != want {
			return fmt.Errorf("got the decoration %q of the target, want %q", got, want)
		}
		return finalizerIs(parent, e.finalizer && !e.letGo)
	}
	status, _, _ := unstructured.NestedMap(parent.Object, "status")
	want := map[string]any{"configMaps": int64(e.configMaps), "secrets": int64(e.secrets), "observedGeneration": parent.GetGeneration()}
	for field, value := range want {
		if !e.noController && !e.waits && status[field] != value {
			return fmt.Errorf("got the parent's status %v, want %v", status, want)
		}
	}
	return finalizerIs(parent, e.finalizer && !e.letGo)
}

// childrenAre returns an error if the children are not those wanted. An object without an owner, or whose owner is deleted, is no child.
func (e end) childrenAre(ctx context.Context, user *perturbation.User, parent *unstructured.Unstructured) error {
	var want, got []string
	for resource, count := range map[schema.GroupVersionResource]int{configMaps: e.configMaps, secrets: e.secrets} {
		for i := range count {
			want = append(want, fmt.Sprintf("%s/%s-%d %s", resource.Resource, name, i, e.value))
		}
		list, err := user.List(ctx, resource)
		if err != nil {
			return err
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !strings.HasPrefix(object.GetName(), name+"-") {
				continue
			}
			child := fmt.Sprintf("%s/%s %s", resource.Resource, object.GetName(), childState(object))
			if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != parent.GetUID() {
				child += " of a deleted parent"
			}
			got = append(got, child)
		}
	}
	want = append(want, e.others...)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("got the children %q, want %q", got, want)
	}
	return nil
}

// childState returns the value of a child, and whether it has no owner.
func childState(object *unstructured.Unstructured) string {
	state, _, _ := unstructured.NestedString(object.Object, "data", "value")
	if decoded, err := base64.StdEncoding.DecodeString(state); object.GetKind() == "Secret" && err == nil {
		state = string(decoded)
	}
	if metav1.GetControllerOf(object) == nil {
		state += " (no owner)"
	}
	return state
}
