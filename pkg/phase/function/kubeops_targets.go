// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// target is one object. UID is set if the object exists already, and ResourceVersion if it is patched.
type target struct {
	Group      string    `json:"group"`
	APIVersion string    `json:"apiVersion"`
	Resource   string    `json:"resource"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid,omitempty"`

	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func (t target) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: t.Group, Version: t.APIVersion, Resource: t.Resource}
}

// secret reports whether the object is a Secret.
func (t target) secret() bool { return t.Group == "" && t.Resource == "secrets" }

// String returns the resource and the name, as in configmaps shop/x.
func (t target) String() string {
	if t.Namespace == "" {
		return fmt.Sprintf("%s %s", t.resource().GroupResource(), t.Name)
	}
	return fmt.Sprintf("%s %s/%s", t.resource().GroupResource(), t.Namespace, t.Name)
}

// output returns the reference to the object for later phases.
func (t target) output() map[string]any {
	return map[string]any{
		"apiVersion": t.APIVersion, "group": t.Group, "resource": t.Resource, "kind": "", "name": t.Name, "namespace": t.Namespace,
	}
}

// newTarget returns the target of an object that is to be created.
func (k *KubeOps) newTarget(ctx context.Context, object *unstructured.Unstructured, namespace string) (target, error) {
	kind := object.GroupVersionKind()
	found, err := k.Mapper.ofKind(ctx, kind, isFound)
	if err != nil {
		return target{}, unlessServed(fmt.Sprintf("looking for the resource of kind %s", kind.Kind), err)
	}
	t := target{Group: found.Group, APIVersion: found.Version, Resource: found.Resource, Name: object.GetName()}
	if t.Name == "" && object.GetGenerateName() != "" {
		t.Name = object.GetGenerateName() + rand.String(5)
	}
	if t.Name == "" {
		return target{}, phase.Failf("the object of kind %s in the spec has no name", kind.Kind)
	}
	if found.namespaced {
		t.Namespace = cmp.Or(object.GetNamespace(), namespace, defaultNamespace)
	}
	return t, t.check(fmt.Sprintf("the %s in the spec", kind.Kind))
}

// existing returns the target of the object that the reference names.
func (k *KubeOps) existing(ctx context.Context, id phase.ID, args blueprint.KubeOpsArgs) (target, error) {
	reference := args.ObjectReference
	if reference.Name == "" || reference.APIVersion == "" || reference.Resource == "" {
		return target{}, phase.Failf("missing one or more required fields name/apiVersion/resource in objectReference")
	}
	t, err := targetOf(ctx, k.Mapper, reference, args.Namespace)
	if err == nil {
		err = k.refuse(id, t, nil)
	}
	if err != nil {
		return target{}, err
	}
	object, err := k.on(t).Get(phase.OnlyMetadata(ctx), t.Name, metav1.GetOptions{})
	if err = k.Mapper.stillServed(t.resource(), err); err != nil {
		return target{}, fmt.Errorf("reading %s %s: %w", t.resource().GroupResource(), t.Name, phase.Definitive(err))
	}
	t.UID = object.GetUID()
	if args.Operation == "patch" {
		t.ResourceVersion = object.GetResourceVersion()
	}
	return t, nil
}

// targetOf returns the target of a reference. The namespace is used if the reference has none.
func targetOf(ctx context.Context, mapper *Mapper, reference blueprint.ObjectReference, namespace string) (target, error) {
	t := target{Group: reference.Group, APIVersion: reference.APIVersion, Resource: reference.Resource, Name: reference.Name}
	found, err := mapper.ofResource(ctx, t.resource())
	if err != nil {
		return target{}, unlessServed(fmt.Sprintf("looking for the resource %s", t.resource()), err)
	}
	if found.namespaced {
		t.Namespace = cmp.Or(reference.Namespace, namespace, defaultNamespace)
	}
	return t, t.check("the objectReference")
}

// unlessServed returns a *Failure for a kind or resource that the API server does not serve. Any other error does not end a phase.
func unlessServed(doing string, err error) error {
	if meta.IsNoMatchError(err) {
		return phase.Failf("%v", err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// check returns a *Failure if the name or the namespace of the target is invalid.
func (t target) check(what string) error {
	if err := phase.CheckName("the name of "+what, t.Name); err != nil {
		return err
	}
	return phase.CheckOptionalNamespace("the namespace of "+what, t.Namespace)
}

// patchOf returns the patch with our mark, and with the UID and the resourceVersion of its object.
func patchOf(ctx context.Context, spec, mark string, t target) ([]byte, error) {
	const source = "the spec of the patch"
	var patch unstructured.Unstructured
	err := eachDocument(ctx, source, spec, func(content []byte) (document map[string]any, _ error) {
		if err := json.Unmarshal(content, &document); err != nil {
			return nil, phase.Failf("reading %s: %v", source, err)
		}
		if patch.Object == nil { // only the first document is used
			patch.Object = document
		}
		return document, nil
	})
	if err != nil {
		return nil, err
	}
	if patch.Object == nil {
		patch.Object = map[string]any{}
	}
	for _, field := range []struct {
		path  []string
		value string
	}{
		{[]string{"metadata", "annotations", phase.AnnotationPhase}, mark},
		{[]string{"metadata", "uid"}, string(t.UID)},
		{[]string{"metadata", "resourceVersion"}, t.ResourceVersion},
	} {
		if err := unstructured.SetNestedField(patch.Object, field.value, field.path...); err != nil {
			return nil, phase.Failf("the patch has invalid metadata: %v", err)
		}
	}
	return json.Marshal(patch.Object)
}
