// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/phase"
)

func TestPodsAreReadWithoutWatch(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
		c.deny("list pods", forbidden)
		c.deny("watch pods", forbidden)
		p, call := c.process(), taskCall(t)
		call.begin(p)
		c.mu.Lock()
		delete(c.denied, "list pods") // the test lists, too
		c.mu.Unlock()
		c.update(podRunning(MainContainer))
		c.deny("list pods", forbidden)
		found := call.poll(p)
		podWantState(t, "while it runs", found, phase.Running)
		podWant(t, "when to look again", found.PollAfter, time.Second)
		time.Sleep(3 * time.Minute)
		if n := strings.Count(p.log(), "Failed to watch"); n != 1 {
			t.Errorf("%d log lines report a failed watch, want one:\n%s", n, p.log())
		}
		c.deny("list pods", nil)
		c.update(podExited(0))
		c.deny("list pods", forbidden)
		podWantState(t, "the end", call.finish(p), phase.Succeeded)
	})
}

func TestIdleWatchEnds(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		for range 6 { // a phase of half an hour is looked at now and then, and keeps its watch
			time.Sleep(call.poll(p).PollAfter)
		}
		podWant(t, "watches", c.count("watch", "pods"), 1)
		call.cancel(p)
		time.Sleep(watchIdle + time.Minute)
		p.wakes(testID)
		pods := c.client.CoreV1().Pods("apps")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "late", Labels: map[string]string{phase.LabelActionSet: "5a11", phase.LabelPhase: "0.1"},
			Annotations: map[string]string{phase.AnnotationActionSet: "apps/backup-x"},
		}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		podWant(t, "wake-ups for a namespace without a watch", p.wakes(testID), 0)
		call.poll(p)
		if p.wakes(testID) == 0 {
			t.Error("the watch does not begin again")
		}
	})
}

// freezeWatches makes watches show nothing from now on. It returns those that are opened.
func (c *podCluster) freezeWatches() *[]*watch.FakeWatcher {
	opened := &[]*watch.FakeWatcher{}
	c.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.denied["watch pods"]; err != nil {
			return true, nil, err
		}
		watcher := watch.NewFake()
		*opened = append(*opened, watcher)
		return true, watcher, nil
	})
	return opened
}

func TestPodMissingInCache(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		c.freezeWatches()
		p, call := c.process(), taskCall(t)
		call.validate(p)
		p.watches.get(Intent{Namespace: "apps", UID: "another"}, "apps")
		synctest.Wait() // synced, with nothing in it
		call.begin(p)
		found := call.poll(p)
		podWantState(t, "it is there", found, phase.Running)
		podWant(t, "when to look again", found.PollAfter, time.Second)
	})
}

func TestLostWatchIsNotTrusted(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		watchers := c.freezeWatches()
		old, call := c.process(), taskCall(t)
		call.begin(old)
		c.update(podRunning(MainContainer))
		p := c.process() // lists the Pod as it runs
		call.poll(p)
		synctest.Wait()
		podWantState(t, "as the cache has it", call.poll(p), phase.Running)

		c.update(podExited(0)) // which no watch shows
		for _, verb := range []string{"list", "watch"} {
			c.deny(verb+" pods", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")))
		}
		for _, watcher := range *watchers {
			watcher.Stop()
		}
		time.Sleep(5 * time.Second)
		podWantState(t, "as it is", call.finish(p), phase.Succeeded)
	})
}

// A process watches a limited number of namespaces, and those of one namespace of ActionSets a part of them. In the others, Pods are read. One that may not
// exist is not watched.
func TestPodsAreReadBeyondTheWatches(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		before := c.count("watch", "pods")
		ofNamespace, total := p.watches.limit.Numbers()
		watched := func() int {
			p.watches.mu.Lock()
			defer p.watches.mu.Unlock()
			return len(p.watches.byNamespace)
		}
		use := func(from string, uid types.UID) {
			for i := range 2 * total {
				p.watches.get(Intent{Namespace: fmt.Sprint(from, "-", i), Pod: "x", UID: uid}, from)
			}
			synctest.Wait()
		}
		use("many", "")
		podWant(t, "watches of namespaces without a Pod", c.count("watch", "pods")-before, 0)
		use("many", "u")
		podWant(t, "watches", c.count("watch", "pods")-before, ofNamespace)
		use("more", "u")
		podWant(t, "watches", c.count("watch", "pods")-before, total-1) // and that of the task
		time.Sleep(watchIdle + time.Minute)
		podWant(t, "namespaces that are watched", watched(), 0)

		use("many", "u")
		use("more", "u")
		podWant(t, "namespaces that are watched again", watched(), total)
		found := call.poll(p)
		podWantState(t, "in a namespace that is not watched", found, phase.Running)
		podWant(t, "when to look again", found.PollAfter, time.Second)
		c.update(podExited(0))
		podWantState(t, "the end", call.finish(p), phase.Succeeded)
	})
}
