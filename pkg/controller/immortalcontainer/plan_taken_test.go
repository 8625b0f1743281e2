// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// looksAgain is how soon a Pod that may not be in our watch is looked at again.
var looksAgain = "again after " + conflictRetry.String()

func TestAConflictIsLookedAtAtLeastOnceAMinute(t *testing.T) {
	if conflictRetry > time.Minute {
		t.Errorf("a conflict is looked at every %v", conflictRetry)
	}
}

func TestPlanWhereTheNameIsTaken(t *testing.T) {
	const event = `event Warning ErrResourceExists "Resource \"x-immortalpod\" already exists and is not managed by ImmortalContainer"`
	ofKind := func(change func(*corev1.Pod)) podOption { return change }
	isConflicting := []string{
		"status: start 1, seen 0, generation 1, Ready=False Conflict, Progressing=True Creating, Conflict=True ErrResourceExists", event, looksAgain}
	is := newContainer(withStatus(creating(1, reserved)))
	testPlans(t, map[string]planCase{
		"a Pod without an owner is a conflict, reported once, and checked again": {
			observed: observed{container: is, pod: podOf(0, podForeign, podUnlabelled), live: true},
			want:     isConflicting,
		},
		"so is one that carries our label": {
			observed: observed{container: is, pod: podOf(0, podForeign)},
			want:     isConflicting,
		},
		"so is one of a ReplicaSet": {
			observed: observed{container: is, live: true, pod: podOf(0, ofKind(func(p *corev1.Pod) {
				p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].UID = "ReplicaSet", "apps/v1", "uid-rs"
			}))},
			want: isConflicting,
		},
		"so is one of another ImmortalContainer": {
			observed: observed{container: is, live: true, pod: podOf(0, ofKind(func(p *corev1.Pod) {
				p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "y", "uid-y"
			}))},
			want: isConflicting,
		},
		"so is one that we own, but not as its controller": {
			observed: observed{container: is, live: true, pod: podOf(0, ofKind(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }))},
			want:     isConflicting,
		},
		"so is one that ends or goes: it is not ours to judge": {
			observed: observed{container: is, live: true, pod: podOf(0, podForeign, podEnded(1, "Error", -1), podTerminating(-2))},
			want:     isConflicting,
		},
		"it is in the way of a suspended container, too": {
			observed: observed{container: newContainer(suspended, withStatus(creating(1, reserved))), live: true, pod: podOf(0, podForeign)},
			want:     isConflicting,
		},
		"once said, it is only looked at": {
			observed: observed{container: newContainer(withStatus(inConflict(1, reserved))), live: true, pod: podOf(0, podForeign)},
			want:     []string{looksAgain},
		},
		"when the spec is edited, nothing new is said": {
			observed: observed{container: newContainer(edited, withStatus(inConflict(1, reserved))), live: true, pod: podOf(0, podForeign)},
			want:     []string{"status: start 1, seen 0, generation 2, Ready=False Conflict, Progressing=True Creating, Conflict=True ErrResourceExists", looksAgain},
		},
		"a Pod of ours in its place resolves the conflict": {
			observed: observed{container: newContainer(withStatus(inConflict(1, reserved))), live: true, pod: podOf(1, podReady)},
			want:     []string{"status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running, Conflict=False Resolved"},
		},
		"a Pod of an earlier object of this name is waited for, without an event": {
			observed: observed{container: is, pod: podOf(3, podReady, podOfEarlierOwner)},
			want:     []string{"status: start 1, seen 0, generation 1, Ready=False WaitingForTermination, Progressing=True WaitingForTermination", looksAgain},
		},
		"also while it terminates": {
			observed: observed{container: is, pod: podOf(3, podReady, podOfEarlierOwner, podTerminating(-5))},
			want:     []string{"status: start 1, seen 0, generation 1, Ready=False WaitingForTermination, Progressing=True WaitingForTermination", looksAgain},
		},
		"and even if it has ended: it is never deleted, nor recorded": {
			observed: observed{container: is, pod: podOf(3, podEnded(1, "Error", -1), podOfEarlierOwner)},
			want:     []string{"status: start 1, seen 0, generation 1, Ready=False WaitingForTermination, Progressing=True WaitingForTermination", looksAgain},
		},
		"once that is said, it is only looked at": {
			observed: observed{container: newContainer(withStatus(newStatus(1, reserved, conditions("False", "WaitingForTermination", "True", "WaitingForTermination",
				"Pod x-immortalpod of an earlier ImmortalContainer of this name is still there")))), pod: podOf(3, podReady, podOfEarlierOwner)},
			want: []string{looksAgain},
		},
		"a container that is being deleted says nothing of it": {
			observed: observed{container: newContainer(func(c *v1alpha1.ImmortalContainer) { c.DeletionTimestamp = timeAt(noon) }), pod: podOf(0, podForeign)},
		},
	})
}

// A Pod without our label is not in our watch, which does not show when it goes. So it has to be labelled, or checked
// again later.
func TestUnwatchedPodIsCheckedAgain(t *testing.T) {
	for name, options := range map[string][]podOption{
		"one that runs":                           {podReady},
		"one that terminates":                     {podReady, podTerminating(-5)},
		"one that has just begun to terminate":    {podReady, podTerminating(0)},
		"one that has ended":                      {podEnded(1, "Error", -1)},
		"one that is of an older spec":            {podReady, podOfOldSpec},
		"one that is foreign":                     {podReady, podForeign},
		"one that is of an earlier owner":         {podReady, podOfEarlierOwner},
		"one that we have asked to be deleted":    {podReady, func(p *corev1.Pod) { p.UID = "deleting" }},
		"one that was deleted and has terminated": {podTerminating(-5), podEnded(1, "Error", -1)},
	} {
		for state, status := range map[string]v1alpha1.ImmortalContainerStatus{
			"before anything is said of it": running(1),
			"after it was said that it terminates": newStatus(1, current("Running"),
				conditions("False", "PodTerminating", "True", "WaitingForTermination", "Pod x-immortalpod is terminating")),
			"after the conflict was said": inConflict(1),
		} {
			for wish, option := range map[string]containerOption{"wanted": func(*v1alpha1.ImmortalContainer) {}, "suspended": suspended} {
				t.Run(name+", "+state+", "+wish, func(t *testing.T) {
					o := observed{container: newContainer(withStatus(status), option), pod: podOf(1, append(options, podUnlabelled)...),
						memory: podMemory{seen: 1, deleting: "deleting"}, live: true, now: noon}
					p := decide(o)
					for _, s := range p.Steps {
						if _, ok := s.(labelPod); ok {
							return
						}
					}
					if p.RequeueAfter <= 0 {
						t.Errorf("no event shows when the Pod is gone, and the plan does not check again: %q", describe(p))
					}
				})
			}
		}
	}
}
