// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"container/list"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// NamespaceQueue is the order of a Loop whose keys are objects in namespaces. No namespace may delay the others, however many keys it has and
// however long their syncs take. The rule:
//
//   - Namespaces take turns; the keys of a namespace are first in, first out.
//   - A namespace has three quarters of the workers at most, rounded up. The keys that it has beyond that are held back until one of its syncs ends.
//
// A key without a name stands for its namespace as a whole. It is treated as one of another namespace, so that it does not wait for its objects.
//
// Each operation takes the same time, however long the queue is.
type NamespaceQueue struct {
	mu sync.Mutex
	// limit is how many keys of a namespace may be synced at the same time.
	limit int
	// taken are, by namespace, the keys that are being synced or may be: those in line.
	taken map[string]int
	line  line[cache.ObjectName, string]
	// length is the number of keys in line.
	length int
	// held are, by namespace, the other keys, first in, first out.
	held map[string]*list.List
}

var _ workqueue.Queue[cache.ObjectName] = &NamespaceQueue{}

// NewNamespaceQueue returns an empty queue.
func NewNamespaceQueue() *NamespaceQueue {
	return &NamespaceQueue{
		limit: 1,
		taken: map[string]int{},
		line:  line[cache.ObjectName, string]{groups: map[string]*list.Element{}},
		held:  map[string]*list.List{},
	}
}

// namespaceOf returns the namespace of a key.
func namespaceOf(key cache.ObjectName) string {
	if key.Name == "" {
		return key.Namespace + " as a whole" // a namespace has no spaces
	}
	return key.Namespace
}

// setWorkers implements sharedQueue.
func (q *NamespaceQueue) setWorkers(workers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = max(1, (3*workers+3)/4)
	for namespace := range q.held {
		for q.taken[namespace] < q.limit && q.unhold(namespace) {
			q.taken[namespace]++
		}
	}
}

// Push implements workqueue.Queue.
func (q *NamespaceQueue) Push(key cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	if q.taken[namespace] < q.limit {
		q.taken[namespace]++
		q.line.push(namespace, key)
		q.length++
		return
	}
	if q.held[namespace] == nil {
		q.held[namespace] = list.New()
	}
	q.held[namespace].PushBack(key)
}

// Touch implements workqueue.Queue: the key waits already.
func (q *NamespaceQueue) Touch(cache.ObjectName) {}

// Len implements workqueue.Queue. It returns how many keys may be popped.
func (q *NamespaceQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length
}

// Pop implements workqueue.Queue. Len must not be 0.
func (q *NamespaceQueue) Pop() cache.ObjectName {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length--
	return q.line.pop()
}

// release implements sharedQueue. The worker that calls it asks for a key next: so no other one has to be woken up for a key that was held back.
func (q *NamespaceQueue) release(key cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	if q.unhold(namespace) {
		return
	}
	q.taken[namespace]--
	if q.taken[namespace] == 0 {
		delete(q.taken, namespace)
	}
}

// unhold moves the first key of the namespace that is held back to the line, and reports whether there was one.
func (q *NamespaceQueue) unhold(namespace string) bool {
	held := q.held[namespace]
	if held == nil {
		return false
	}
	q.line.push(namespace, held.Remove(held.Front()).(cache.ObjectName))
	q.length++
	if held.Len() == 0 {
		delete(q.held, namespace)
	}
	return true
}

// sharedQueue is a Queue that limits how many keys of a kind are synced at the same time.
type sharedQueue[K comparable] interface {
	// setWorkers is called once, before the first worker asks for a key.
	setWorkers(workers int)
	// release is called after the sync of a key that was popped.
	release(key K)
}
