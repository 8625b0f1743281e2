// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/blueprint"
)

const (
	// maxWaitObjects is the maximum number of different objects that the conditions of a phase name. They may all be read in each poll.
	maxWaitObjects = 100
	// maxWaitMemory is how much memory these objects may take together, in bytes. Each worker may hold that much.
	maxWaitMemory = 8 << 20
)

var errObjectsTooLarge = fmt.Errorf(
	"ObjectsTooLarge: the objects that the conditions name take more than %d bytes of memory together: name fewer of them, or smaller ones", maxWaitMemory)

// waitObjects are the objects that one evaluation has read, each once: conditions on the same object use the same version of it.
type waitObjects struct {
	client dynamic.Interface
	mapper *Mapper
	kept   map[target]map[string]any
	// memory that they take, in bytes.
	memory int
	// reads is the number of requests.
	reads int
}

// get returns the object of a reference. It reads the object if it is not kept.
func (o *waitObjects) get(ctx context.Context, reference blueprint.ObjectReference) (t target, object map[string]any, err error) {
	if t, err = targetOf(ctx, o.mapper, reference, ""); err != nil {
		return t, nil, err
	}
	if known, ok := o.kept[t]; ok {
		return t, known, nil
	}
	o.reads++
	found, err := o.client.Resource(t.resource()).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return t, nil, err
	}
	return t, found.Object, nil
}

// keep pays for an object that was read, and keeps it.
func (o *waitObjects) keep(budget *blueprint.Budget, t target, object map[string]any) error {
	if _, ok := o.kept[t]; ok {
		return nil
	}
	memory, err := budget.PayForObject(object)
	if err != nil {
		return err
	}
	if o.memory += memory; o.memory > maxWaitMemory {
		return errObjectsTooLarge
	}
	if o.kept == nil {
		o.kept = map[target]map[string]any{}
	}
	o.kept[t] = object
	return nil
}

// checkObjects returns an error if conditions name too many objects.
func checkObjects(conditions []item) error {
	different := map[blueprint.ObjectReference]bool{}
	for _, each := range conditions {
		reference := each.ObjectReference
		reference.Kind = "" // the resource identifies the object
		different[reference] = true
	}
	if n := len(different); n > maxWaitObjects {
		return fmt.Errorf("conditions names %d different objects, and may name %d: use several phases", n, maxWaitObjects)
	}
	return nil
}
