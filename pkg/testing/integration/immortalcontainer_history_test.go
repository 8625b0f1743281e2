// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller/immortalcontainer"
)

// podHistory records the Pods of the test's namespace, with a watch that no proxy disturbs.
type podHistory struct {
	mu       sync.Mutex
	pods     map[types.UID]*pastPod
	problems []string
}

// pastPod is a Pod that exists or existed.
type pastPod struct {
	owner   types.UID
	start   string // the number of the start in its annotation
	created time.Time
	gone    bool
}

// recordPods watches the Pods until the test ends.
func recordPods(e *env) *podHistory {
	h := &podHistory{pods: map[types.UID]*pastPod{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		// A reflector would wait too long after a restart of the API server.
		for ctx.Err() == nil {
			h.listAndWatch(ctx, e)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	e.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return h
}

// listAndWatch returns when the list or the watch fails or ends. The next call misses only Pods that are created and deleted in between:
// no test deletes Pods while it stops the API server.
func (h *podHistory) listAndWatch(ctx context.Context, e *env) {
	pods := e.kube.CoreV1().Pods(e.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	h.replace(list.Items)
	watcher, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		h.see(pod, event.Type == "DELETED")
	}
}

func (h *podHistory) replace(pods []corev1.Pod) {
	h.mu.Lock()
	for uid, pod := range h.pods {
		pod.gone = !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == uid })
	}
	h.mu.Unlock()
	for i := range pods {
		h.see(&pods[i], false)
	}
}

func (h *podHistory) see(pod *corev1.Pod, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		h.problems = append(h.problems, fmt.Sprintf("Pod %s has no controller", pod.Name))
		return
	}
	h.pods[pod.UID] = &pastPod{
		owner:   owner.UID,
		start:   pod.Annotations[immortalcontainer.AnnotationStart],
		created: pod.CreationTimestamp.Time,
		gone:    gone,
	}
	live := 0
	for _, other := range h.pods {
		if other.owner == owner.UID && !other.gone {
			live++
		}
	}
	if live > 1 {
		start := pod.Annotations[immortalcontainer.AnnotationStart]
		h.problems = append(h.problems, fmt.Sprintf("when Pod %s of start %s was created, %s had %d Pods", pod.Name, start, owner.Name, live))
	}
}

// starts returns when the Pod of each start of the ImmortalContainer was created.
func (h *podHistory) starts(container *v1alpha1.ImmortalContainer) map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	starts := map[string]time.Time{}
	for _, pod := range h.pods {
		if pod.owner == container.UID {
			starts[pod.start] = pod.created
		}
	}
	return starts
}

// verify checks the ImmortalContainer's count of starts: each start that it counts had one Pod, and each Pod is counted.
func (h *podHistory) verify(container *v1alpha1.ImmortalContainer) (complaint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.problems) > 0 {
		return fmt.Sprint(h.problems)
	}
	var starts []string
	for _, pod := range h.pods {
		if pod.owner == container.UID {
			starts = append(starts, pod.start)
		}
	}
	var want []string
	for n := range container.Status.StartTimes {
		want = append(want, strconv.FormatInt(n+1, 10))
	}
	slices.Sort(starts)
	slices.Sort(want)
	if !slices.Equal(starts, want) {
		return fmt.Sprintf("Pods of the starts: got %v, want %v: %s", starts, want, describe(container))
	}
	return ""
}
