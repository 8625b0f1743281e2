// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"

	"millwright.dev/pkg/blueprint"
)

const (
	// expensiveRead is how much of a CPU it takes to read an object that is remembered as expensive.
	expensiveRead = 20 * time.Millisecond
	// maxExpensive is the maximum number of objects that are remembered.
	maxExpensive = 1000
)

// expensiveObjects are the objects that conditions have read and that were expensive. So a phase that begins need not read them to know what that costs. The
// zero value is ready for use.
type expensiveObjects struct {
	once sync.Once
	// costs are of type time.Duration, by blueprint.ObjectReference.
	costs *lru.Cache
}

func (e *expensiveObjects) cache() *lru.Cache {
	e.once.Do(func() { e.costs = lru.New(maxExpensive) })
	return e.costs
}

// learn remembers how much of a CPU it took to read an object, with this error.
func (e *expensiveObjects) learn(reference blueprint.ObjectReference, cpu time.Duration, err error) {
	switch {
	case cpu >= expensiveRead:
		e.cache().Add(withoutKind(reference), cpu)
	case err == nil || apierrors.IsNotFound(err):
		e.cache().Remove(withoutKind(reference))
	}
}

// cost returns how much of a CPU it takes to read the objects of the conditions, as far as they are known to be expensive.
func (e *expensiveObjects) cost(conditions []item) (cpu time.Duration) {
	counted := map[blueprint.ObjectReference]bool{}
	for _, each := range conditions {
		reference := withoutKind(each.ObjectReference)
		if known, ok := e.cache().Get(reference); ok && !counted[reference] {
			cpu += known.(time.Duration)
			counted[reference] = true
		}
	}
	return cpu
}

// withoutKind returns a reference without its kind: the resource identifies the object.
func withoutKind(reference blueprint.ObjectReference) blueprint.ObjectReference {
	reference.Kind = ""
	return reference
}
