// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// work is what users do to some ImmortalContainers during a fault. There are several of each of these kinds:
//
//	idle       Ready before, and not changed
//	deleted    the Pod is deleted
//	changed    the image is changed
//	both       the Pod is deleted, and immediately after that the image is changed
//	created    created during the fault
type work struct {
	*env
	prefix  string
	history *podHistory
	steps   []func()
	// starts is the number of starts that each must have in the end. Those of kind both may have more.
	starts map[string]int64
}

// each is the number of ImmortalContainers of each kind.
const each = 3

const newImage = "nginx:1.29"

// startWork creates those that are Ready before the fault.
func startWork(e *env, prefix string) *work {
	e.Helper()
	w := &work{env: e, prefix: prefix, history: recordPods(e), starts: map[string]int64{}}
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%s-%d", prefix, kind, i) }
	for i := range each {
		for _, kind := range []string{"idle", "deleted", "changed", "both"} {
			w.starts[name(kind, i)] = 1
			e.create(immortal(name(kind, i)))
		}
	}
	for name := range w.starts {
		e.awaitReady(name, 1)
	}
	for i := range each {
		w.steps = append(w.steps,
			func() { w.deletePod(name("deleted", i)); w.starts[name("deleted", i)] = 2 },
			func() {
				w.patch(name("changed", i), `{"spec":{"image":"`+newImage+`"}}`)
				w.starts[name("changed", i)] = 2
			},
			func() { w.create(immortal(name("created", i))); w.starts[name("created", i)] = 1 },
			func() {
				w.deletePod(name("both", i))
				w.patch(name("both", i), `{"spec":{"image":"`+newImage+`"}}`)
				w.starts[name("both", i)] = 2
			},
		)
	}
	return w
}

// doSome does one third of the work.
func (w *work) doSome() {
	w.Helper()
	for _, step := range w.steps[:min(4, len(w.steps))] {
		step()
	}
	w.steps = w.steps[min(4, len(w.steps)):]
}

// do does the rest of the work, spread over the duration of the fault.
func (w *work) do(fault time.Duration) {
	w.Helper()
	pause := time.NewTicker(max(fault, time.Millisecond) / time.Duration(max(len(w.steps), 1)))
	defer pause.Stop()
	for _, step := range w.steps {
		step()
		<-pause.C
	}
	w.steps = nil
}

// awaitConverged waits until all is as users want it and each start is accounted for, and returns how long that took.
func (w *work) awaitConverged() time.Duration {
	w.Helper()
	begin := time.Now()
	w.eventually(w.complaint)
	took := time.Since(begin)
	for name, least := range w.starts {
		if starts := w.get(name).Status.StartTimes; starts != least && !strings.Contains(name, "-both-") {
			w.Errorf("startTimes of %s: got %d, want %d", name, starts, least)
		}
	}
	return took
}

// complaint returns what is not as users want it yet. It is empty if all is.
func (w *work) complaint() string {
	list, err := w.client.ImmortalcontainersV1alpha1().ImmortalContainers(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	pods, err := w.kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	podOf := map[string]string{} // what the Pod runs, by the name of its ImmortalContainer
	for _, pod := range pods.Items {
		name := strings.TrimSuffix(pod.Name, "-immortalpod")
		podOf[name] = pod.Spec.Containers[0].Image
		if pod.DeletionTimestamp != nil {
			podOf[name] += fmt.Sprintf(" (terminating, with a grace period of %d s)", ptr.Deref(pod.DeletionGracePeriodSeconds, -1))
		}
	}
	found := 0
	for i := range list.Items {
		container := &list.Items[i]
		least, ours := w.starts[container.Name]
		if !ours {
			continue
		}
		found++
		status := &container.Status
		switch {
		case status.ObservedGeneration != container.Generation, status.StartTimes < least,
			!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
			fallthrough
		case podOf[container.Name] != container.Spec.Image:
			return fmt.Sprintf("%s; image of its Pod: %q", describe(container), podOf[container.Name])
		}
		if complaint := w.history.verify(container); complaint != "" {
			return complaint
		}
	}
	if found != len(w.starts) {
		return fmt.Sprintf("got %d ImmortalContainers, want %d", found, len(w.starts))
	}
	return ""
}
