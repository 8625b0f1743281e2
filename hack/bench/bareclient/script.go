// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bareclient sends the requests that an operator was seen to send, and nothing else: what it takes is what the API
// server, the scheduler and the nodes take for this work. It has no cache, no queue of keys, and decides nothing.
//
// Of each recorded request it keeps the kind, the size and the place in the order of its object. Names are the recorded
// ones, in another namespace; UIDs and resourceVersions are those that its own requests were answered with. As many objects
// are worked on at the same time as the operator has workers, and events are posted one after the other beside them, as
// client-go's recorder does.
//
// It waits for what the recorded requests waited for, on a watch of its own: see [wait].
package bareclient

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// wait is what must have become of an object's Pod before a step is done.
type wait int

const (
	none        wait = iota
	gone             // a start is reserved, and a Pod created, when there is none
	terminating      // a status that speaks of it
	ready            // the status that says so
)

// step is one request. One of the fields beside wait is set.
type step struct {
	wait   wait
	status *v1alpha1.ImmortalContainerStatus // to be written
	pod    *corev1.Pod                       // to be created
	event  *corev1.Event                     // to be created
	read   bool                              // of the Pod
}

// scripts turns what was recorded into the steps of each object. leftOut is the number of requests that are not replayed: the
// API server refused them, or they are of a kind that neither a start nor a recovery needs. Without them the bare client has
// less to do than the operator had.
func scripts(requests []traffic.Request) (steps map[string][]step, leftOut int, err error) {
	steps = map[string][]step{}
	events := map[string][]step{}
	for _, r := range requests {
		s, err := newStep(r)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("reading the recorded request %s of %s: %w", r.Kind(), r.Object, err)
		case s == nil:
			leftOut++
		case s.event != nil:
			events[r.Object] = append(events[r.Object], *s)
		default:
			steps[r.Object] = append(steps[r.Object], *s)
		}
	}
	for object, events := range events {
		steps[object] = withEvents(steps[object], events)
	}
	return steps, leftOut, nil
}

func newStep(r traffic.Request) (*step, error) {
	if r.Code >= 300 || r.Object == "" {
		return nil, nil
	}
	switch r.Kind() {
	case "update immortalcontainers/status":
		container := &v1alpha1.ImmortalContainer{}
		if err := json.Unmarshal(r.Body, container); err != nil {
			return nil, err
		}
		return &step{wait: waitBefore(&container.Status), status: &container.Status}, nil
	case "create pods":
		pod, err := decode[*corev1.Pod](r.Body)
		return &step{wait: gone, pod: pod}, err
	case "create events":
		event, err := decode[*corev1.Event](r.Body)
		return &step{event: event}, err
	case "get pods":
		return &step{read: true}, nil
	}
	return nil, nil
}

func decode[T runtime.Object](body []byte) (object T, err error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return object, err
	}
	object, ok := obj.(T)
	if !ok {
		return object, fmt.Errorf("it has a %T", obj)
	}
	return object, nil
}

// waitBefore tells from a status what its author had seen of the Pod.
func waitBefore(status *v1alpha1.ImmortalContainerStatus) wait {
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		return ready
	}
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	switch {
	case progressing != nil && progressing.Reason == v1alpha1.ReasonWaitingForTermination:
		return terminating
	case status.StartTimes > status.ObservedStart:
		return gone
	}
	return none
}

// withEvents puts the events where the operator records them, which is after the Pod was created. They were recorded by the
// proxy when their turn came to be posted, which may be much later.
func withEvents(steps, events []step) []step {
	for i := range steps {
		if steps[i].pod != nil {
			return append(append(append([]step{}, steps[:i+1]...), events...), steps[i+1:]...)
		}
	}
	return append(steps, events...)
}
