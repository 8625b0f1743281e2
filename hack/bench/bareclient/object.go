// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// object is one ImmortalContainer, worked on by one worker at a time.
type object struct {
	container *v1alpha1.ImmortalContainer
	steps     []step // still to be done

	mu     sync.Mutex
	pod    wait // what its Pod is now: gone, terminating, ready, or none of these
	parked bool // until the Pod is what the next step waits for
}

// park tells whether the next step has to wait. If so the object belongs to the watch, which hands it back to the workers.
func (o *object) park() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parked = !o.mayGoOn()
	return o.parked
}

// saw tells whether the object has waited for this change of its Pod.
func (o *object) saw(event watch.EventType, pod *corev1.Pod) (goOn bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pod = stateOf(event, pod)
	if !o.parked || !o.mayGoOn() {
		return false
	}
	o.parked = false
	return true
}

func (o *object) mayGoOn() bool {
	wanted := o.steps[0].wait
	return wanted == none || wanted == o.pod || wanted == terminating && o.pod == gone
}

func stateOf(event watch.EventType, pod *corev1.Pod) wait {
	switch {
	case event == watch.Deleted:
		return gone
	case pod.DeletionTimestamp != nil:
		return terminating
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ready
		}
	}
	return none
}
