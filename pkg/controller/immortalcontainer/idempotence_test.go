// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// world is what there is: a pure and tiny API server, on which plans take effect.
type world struct {
	observed
	created int
	said    map[string]int
}

// look is what the controller observes: the watch shows Pods with our label only.
func (w *world) look() observed {
	o := w.observed
	o.container, o.pod, o.live = w.container.DeepCopy(), w.pod.DeepCopy(), false
	if o.pod != nil && o.pod.Labels[controller.LabelManagedBy] != controller.ManagedBy {
		o.pod = nil
	}
	return o
}

// act is one sync. It returns the steps that had an effect, and when to look again.
func (w *world) act() (effects []string, requeueAfter time.Duration) {
	o := w.look()
	if o.pod != nil {
		w.memory.seen = max(w.memory.seen, startOf(o.pod))
		o.memory = w.memory
	}
	p := decide(o)
	for i := 0; i < len(p.Steps) || len(p.Asks) > 0; i++ {
		if len(p.Asks) == 0 && w.do(p.Steps[i]) {
			effects = append(effects, describe(controller.Plan{Steps: p.Steps[i : i+1]})...)
			continue
		}
		// Read what there is, and decide again.
		if o.live {
			return append(effects, "reads the live Pod twice"), 0
		}
		o.container, o.pod, o.live = w.container.DeepCopy(), w.pod.DeepCopy(), true
		p, i = decide(o), -1
	}
	return effects, p.RequeueAfter
}

// do returns false where the name of the Pod is taken.
func (w *world) do(s controller.Step) bool {
	switch s := s.(type) {
	case writeStatus:
		w.container.Status = *s.status.DeepCopy()
	case createPod:
		if w.pod != nil {
			return false
		}
		w.created++
		w.pod = newPod(w.container, s.start)
		w.pod.UID = types.UID(fmt.Sprintf("uid-created-%d", w.created))
		w.pod.CreationTimestamp, w.pod.Status.Phase = metav1.NewTime(w.now), corev1.PodPending
		w.memory.seen = max(w.memory.seen, s.start)
	case deletePod:
		if w.pod == nil || w.pod.UID != s.uid {
			panic("deletes a Pod that is not there")
		}
		w.memory.deleting = s.uid
		if finished(w.pod) {
			w.memory.gone = max(w.memory.gone, startOf(w.pod))
			w.pod = nil
			break
		}
		w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = timeAt(w.now.Add(30*time.Second)), ptr.To[int64](30)
	case labelPod:
		w.pod.Labels[controller.LabelManagedBy] = controller.ManagedBy
	case controller.RecordEvent:
		w.said[s.String()]++
	}
	return true
}

// worlds are all combinations of what may be observed.
func worlds() map[string]func() *world {
	specs := map[string]containerOption{
		"wanted": func(*v1alpha1.ImmortalContainer) {}, "suspended": suspended, "edited": edited,
		"edited and suspended": func(c *v1alpha1.ImmortalContainer) { edited(c); suspended(c) },
	}
	statuses := map[string]v1alpha1.ImmortalContainerStatus{
		"new": {}, "creating": creating(3, reserved), "running": running(3), "backing off": backingOff(3, 2, after(15), terminationOfPod(1, "Error", -5)),
		"due": backingOff(3, 2, after(-1)), "in conflict": inConflict(3), "in conflict from the start": inConflict(1, reserved),
		"refused": refused(3, "Forbidden", "quota"), "invalid": refused(3, "Invalid", "no such port"), "suspended": suspendedIdle(3), "replacing": replacing(3),
		"terminating": terminatingOf(4),
	}
	pods := map[string][]podOption{
		"no Pod": nil, "a Pod that starts": {}, "a ready Pod": {podReady}, "a Pod of an old spec": {podReady, podOfOldSpec},
		"a Pod that failed": {podEnded(1, "Error", -5)}, "a Pod of an old spec that failed": {podEnded(1, "Error", -5), podOfOldSpec},
		"a Pod that terminates": {podReady, podTerminating(-5)}, "a Pod that has just begun to": {podReady, podTerminating(0)},
		"a Pod without our label": {podReady, podUnlabelled}, "a foreign Pod": {podForeign, podUnlabelled}, "a foreign Pod with our label": {podForeign},
		"a Pod of an earlier owner": {podOfEarlierOwner},
	}
	memories := map[string]podMemory{"nothing seen": {}, "the Pod seen": {seen: 3}, "the Pod seen to go": {seen: 3, gone: 3}}
	all := map[string]func() *world{}
	for specName, spec := range specs {
		for statusName, status := range statuses {
			for podName, options := range pods {
				for memoryName, memory := range memories {
					all[specName+", status "+statusName+", "+podName+", "+memoryName] = func() *world {
						w := &world{observed: observed{container: newContainer(withStatus(status), spec), memory: memory, now: noon}, said: map[string]int{}}
						if options != nil {
							w.pod = podOf(3, options...)
						}
						return w
					}
				}
			}
		}
	}
	return all
}

// Deciding again after a plan was applied gives the remaining steps, never the same steps again: from every state the
// controller comes to rest, with at most one Pod created, and no event or write twice.
func TestFromEveryStateThePlansComeToRest(t *testing.T) {
	for name, build := range worlds() {
		w := build()
		var path []string
		for round := 0; ; round++ {
			effects, _ := w.act()
			path = append(path, effects...)
			if len(effects) == 0 {
				break
			}
			if round == 4 {
				t.Errorf("%s: no rest after %d rounds:\n%q", name, round, path)
				break
			}
		}
		if w.created > 1 {
			t.Errorf("%s: %d Pods created:\n%q", name, w.created, path)
		}
		for said, times := range w.said {
			if times > 1 {
				t.Errorf("%s: said %d times: %s", name, times, said)
			}
		}
	}
}

// At rest time alone makes a difference, and only when the plan has asked for it.
func TestAtRestUntilTheRequeue(t *testing.T) {
	for name, build := range worlds() {
		w := build()
		for range 5 {
			w.act()
		}
		for range 3 {
			_, requeueAfter := w.act()
			if requeueAfter <= 0 {
				requeueAfter = 24 * time.Hour // it waits for an event
			}
			w.now = w.now.Add(requeueAfter - 1)
			if effects, _ := w.act(); len(effects) > 0 {
				t.Errorf("%s: a moment before the plan asks to look again (after %v) it would do %q", name, requeueAfter, effects)
				break
			}
			w.now = w.now.Add(1)
			for range 5 {
				w.act()
			}
			if effects, _ := w.act(); len(effects) > 0 {
				t.Errorf("%s: no rest after time has passed: %q", name, effects)
				break
			}
		}
	}
}
