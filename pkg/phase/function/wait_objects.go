// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

const (
	// maxWaitObjects is the maximum number of different objects that the conditions of a phase name. They may all be read in each poll.
	maxWaitObjects = 100
	// maxWaitMemory is how much memory these objects may take together, in bytes.
	maxWaitMemory = 16 << 20
	// smallWaitMemory is how much memory they may take without a place among maxLargeWaits evaluations, which a process with the memory limit of the shipped
	// Deployment does at a time; see [inflight.AtMostForMemory].
	smallWaitMemory = 1 << 20
	maxLargeWaits   = 4
	// readsOfDiscovery is how many reads of an object take as much of a CPU as a look-up of a resource that is not served, of which nothing is cached.
	readsOfDiscovery = 4
)

var errObjectsTooLarge = fmt.Errorf(
	"ObjectsTooLarge: the objects that the conditions name take more than %d bytes of memory together: name fewer of them, or smaller ones", maxWaitMemory)

// errNoPlace means that too many evaluations take much memory at the moment. The next poll tries it again.
var errNoPlace = errors.New("there is no place for large objects")

// placeError returns the reason for errNoPlace, for users to read.
func placeError() error {
	ofNamespace, total := largeWaits().Numbers()
	return fmt.Errorf("other conditions read large objects: %d phases may do so at a time, %d of them for the ActionSets of one namespace", total, ofNamespace)
}

// largeWaits are the places of evaluations whose objects take much memory. The keys are namespaces.
var largeWaits = sync.OnceValue(func() *inflight.Limit[string] {
	return inflight.NewLimit[string](inflight.Shared(inflight.AtMostForMemory(maxLargeWaits)))
})

// waitObjects are the objects that one evaluation has read, each once: conditions on the same object use the same version of it.
type waitObjects struct {
	client dynamic.Interface
	mapper *Mapper
	reach  phase.Reach
	// namespace is that of the ActionSet.
	namespace string
	kept      map[target]map[string]any
	expensive *expensiveObjects
	// memory that they take, in bytes.
	memory int
	// endPlace gives up the place among largeWaits; nil without one.
	endPlace func()
}

// get returns the object of a reference. It reads the object if it is not kept.
func (o *waitObjects) get(ctx context.Context, reference blueprint.ObjectReference) (t target, object map[string]any, err error) {
	if t, err = targetOf(ctx, o.mapper, reference, ""); err != nil {
		phase.AddReads(ctx, readsOfDiscovery, 0)
		return t, nil, err
	}
	if known, ok := o.kept[t]; ok {
		return t, known, nil
	}
	if err := o.reach.RefuseRead(o.namespace, t.resource().GroupResource(), t.Namespace, t.Name); err != nil {
		return t, nil, err
	}
	admitted, reads := phase.CountReads(phase.WithAdmission(ctx, o.admit))
	found, err := o.client.Resource(t.resource()).Namespace(t.Namespace).Get(admitted, t.Name, metav1.GetOptions{})
	reads.AddTo(ctx)
	o.expensive.learn(reference, reads.CPU(), err)
	_, tooLarge := phase.FailureOf(err)
	switch { // without the URL of the request
	case tooLarge, errors.Is(err, errObjectsTooLarge):
		return t, nil, errObjectsTooLarge
	case errors.Is(err, errNoPlace):
		return t, nil, placeError()
	case err != nil:
		return t, nil, err
	case t.secret():
		secretType, _, _ := unstructured.NestedString(found.Object, "type")
		return t, found.Object, o.reach.RefuseSecret(o.namespace, found, corev1.SecretType(secretType))
	default:
		return t, found.Object, nil
	}
}

// admit checks an object before it is decoded. It takes this much memory, in bytes.
func (o *waitObjects) admit(memory int) error {
	together := o.memory + memory
	if together > maxWaitMemory {
		return errObjectsTooLarge
	}
	if together > smallWaitMemory && o.endPlace == nil {
		var ok bool
		if o.endPlace, ok = largeWaits().TryAcquire(o.namespace); !ok {
			return errNoPlace
		}
	}
	return nil
}

// end forgets the objects, and gives up the place.
func (o *waitObjects) end() {
	if o.endPlace != nil {
		o.endPlace()
	}
	o.kept, o.endPlace = nil, nil
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
		different[withoutKind(each.ObjectReference)] = true
	}
	if n := len(different); n > maxWaitObjects {
		return fmt.Errorf("conditions names %d different objects, and may name %d: use several phases", n, maxWaitObjects)
	}
	return nil
}
