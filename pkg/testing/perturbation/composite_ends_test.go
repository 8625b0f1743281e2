// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
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

// end is how things are when an act has come to its end.
type end struct {
	// The parent's children, and what all of them say.
	configMaps, secrets int
	value               string
	// finalizer is on the CompositeController and on the parent, unless that is let go.
	finalizer, letGo bool
	// That there is no parent, or no CompositeController.
	noParent, noController bool
	// others are objects with the name of a child that are not the parent's, as stateOf tells them.
	others []string
}

// reached tells whether it is so.
func (e end) reached(ctx context.Context, user *perturbation.User) (bool, error) {
	err := e.controllerIs(ctx, user)
	parent, getErr := user.Get(ctx, widgets, name)
	switch {
	case apierrors.IsNotFound(getErr) && e.noParent:
		parent = &unstructured.Unstructured{}
	case getErr != nil:
		return false, getErr
	case e.noParent:
		return false, errors.New("the parent is there")
	default:
		err = errors.Join(err, e.parentIs(parent))
	}
	err = errors.Join(err, e.childrenAre(ctx, user, parent))
	return err == nil, err
}

func (e end) controllerIs(ctx context.Context, user *perturbation.User) error {
	// Every namespace has this one; until then it may come at any time.
	if _, err := user.Get(ctx, configMaps, "kube-root-ca.crt"); err != nil {
		return err
	}
	object, err := user.Get(ctx, composites, user.RunName())
	if e.noController && apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	cc, err := typed[metacontroller.CompositeController](object)
	if err != nil {
		return err
	}
	ready := meta.FindStatusCondition(cc.Status.Conditions, metacontroller.ConditionReady)
	if e.noController || cc.Status.ObservedGeneration != cc.Generation || ready == nil || ready.Reason != metacontroller.ReasonServing {
		return fmt.Errorf("the CompositeController is there, and its status is %+v", cc.Status)
	}
	return finalizerIs(object, e.finalizer)
}

// finalizerIs tells what is wrong with the finalizers of a parent or of a CompositeController: there is to be one or none.
func finalizerIs(object *unstructured.Unstructured, wanted bool) error {
	if has := len(object.GetFinalizers()) > 0; has != wanted {
		return fmt.Errorf("%s has the finalizers %q", object.GetKind(), object.GetFinalizers())
	}
	return nil
}

func (e end) parentIs(parent *unstructured.Unstructured) error {
	status, _, _ := unstructured.NestedMap(parent.Object, "status")
	if !e.noController && (status["configMaps"] != int64(e.configMaps) || status["secrets"] != int64(e.secrets) || status["observedGeneration"] != parent.GetGeneration()) {
		return fmt.Errorf("the parent is of generation %d, and its status is %v", parent.GetGeneration(), status)
	}
	return finalizerIs(parent, e.finalizer && !e.letGo)
}

// childrenAre tells what is wrong with the children. An object that has lost its owner, or whose owner is gone, is none.
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
			said := fmt.Sprintf("%s/%s %s", resource.Resource, object.GetName(), childState(object))
			if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != parent.GetUID() {
				said += " of a parent that is gone"
			}
			got = append(got, said)
		}
	}
	want = append(want, e.others...)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("there are %q, want %q", got, want)
	}
	return nil
}

// childState is what a child says, and whether it is nobody's.
func childState(object *unstructured.Unstructured) string {
	state, _, _ := unstructured.NestedString(object.Object, "data", "value")
	if decoded, err := base64.StdEncoding.DecodeString(state); object.GetKind() == "Secret" && err == nil {
		state = string(decoded)
	}
	if metav1.GetControllerOf(object) == nil {
		state += " (nobody's)"
	}
	return state
}
