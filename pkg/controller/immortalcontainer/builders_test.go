// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// noon is now in the tests of what is pure.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after noon, in seconds.
func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func timeAt(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t)) }

type containerOption func(*v1alpha1.ImmortalContainer)

// newContainer is default/x, as the API server would return it after its first apply.
func newContainer(options ...containerOption) *v1alpha1.ImmortalContainer {
	container := &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "uid-x", Generation: 1, ResourceVersion: "1"},
		Spec: v1alpha1.ImmortalContainerSpec{
			Image:   "nginx:1",
			Backoff: v1alpha1.Backoff{InitialSeconds: 10, MaxSeconds: 300, ResetAfterSeconds: 600},
		},
	}
	for _, option := range options {
		option(container)
	}
	return container
}

func suspended(container *v1alpha1.ImmortalContainer) { container.Spec.Suspend = true }

// edited: the status does not speak of this generation yet.
func edited(container *v1alpha1.ImmortalContainer) { container.Generation++ }

func withStatus(status v1alpha1.ImmortalContainerStatus) containerOption {
	return func(container *v1alpha1.ImmortalContainer) { container.Status = *status.DeepCopy() }
}

type statusOption func(*v1alpha1.ImmortalContainerStatus)

// newStatus is one of generation 1 with that number of starts, the Pods of which were seen.
func newStatus(starts int64, options ...statusOption) v1alpha1.ImmortalContainerStatus {
	status := v1alpha1.ImmortalContainerStatus{StartTimes: starts, ObservedStart: starts, ObservedGeneration: 1}
	for _, option := range options {
		option(&status)
	}
	return status
}

// reserved: the Pod of the newest start was not seen.
func reserved(status *v1alpha1.ImmortalContainerStatus) { status.ObservedStart-- }

func current(phase corev1.PodPhase) statusOption {
	return func(status *v1alpha1.ImmortalContainerStatus) {
		status.CurrentPod, status.PodPhase = "x-immortalpod", phase
	}
}

func condition(conditionType string, value metav1.ConditionStatus, reason, message string) statusOption {
	return func(status *v1alpha1.ImmortalContainerStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: conditionType, Status: value, Reason: reason, Message: message, ObservedGeneration: 1,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		})
	}
}

func conditions(ready metav1.ConditionStatus, readyReason string, progressing metav1.ConditionStatus, reason, message string) statusOption {
	return func(status *v1alpha1.ImmortalContainerStatus) {
		condition("Ready", ready, readyReason, message)(status)
		condition("Progressing", progressing, reason, message)(status)
	}
}

// The statuses of a container that is left alone in each of its states.
func creating(starts int64, options ...statusOption) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, append([]statusOption{current("Pending"),
		conditions("False", "PodStarting", "True", "Creating", "Pod x-immortalpod is starting")}, options...)...)
}

func running(starts int64, options ...statusOption) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, append([]statusOption{current("Running"), condition("Ready", "True", "PodReady", ""),
		condition("Progressing", "False", "Running", "")}, options...)...)
}

// terminatingOf is that of a container whose start is reserved and whose last Pod terminates.
func terminatingOf(starts int64) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, reserved, current("Running"), conditions("False", "PodTerminating", "True", "WaitingForTermination",
		fmt.Sprintf("Pod x-immortalpod is terminating, start %d follows", starts)))
}

func suspendedIdle(starts int64) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, conditions("False", "Suspended", "False", "Suspended", "spec.suspend is true"))
}

func backingOff(starts int64, terminations int32, until time.Time, options ...statusOption) v1alpha1.ImmortalContainerStatus {
	message := fmt.Sprintf("Next start at %s, after %d terminations in a row", until.UTC().Format(time.RFC3339), terminations)
	return newStatus(starts, append([]statusOption{conditions("False", "BackingOff", "True", "BackingOff", message),
		func(status *v1alpha1.ImmortalContainerStatus) {
			status.ConsecutiveTerminations, status.NextStartTime = terminations, timeAt(until)
		}}, options...)...)
}

func replacing(starts int64) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, current("Running"),
		conditions("False", "Replacing", "True", "Replacing", "Pod x-immortalpod is of an older spec and is being deleted"))
}

func refused(starts int64, reason, message string) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, reserved, conditions("False", reason, "True", "Creating", message))
}

const conflictText = "Resource \"x-immortalpod\" already exists and is not managed by ImmortalContainer"

func inConflict(starts int64, options ...statusOption) v1alpha1.ImmortalContainerStatus {
	return newStatus(starts, append([]statusOption{condition("Conflict", "True", "ErrResourceExists", conflictText),
		condition("Ready", "False", "Conflict", conflictText),
		condition("Progressing", "True", "Creating", "Pod x-immortalpod is starting")}, options...)...)
}

type podOption func(*corev1.Pod)

// podOf is the Pod of that start of newContainer(), just created.
func podOf(start int64, options ...podOption) *corev1.Pod {
	pod := newPod(newContainer(), start)
	pod.UID = types.UID(fmt.Sprintf("uid-pod-%d", start))
	pod.CreationTimestamp = metav1.NewTime(after(-60))
	pod.Status.Phase = corev1.PodPending
	for _, option := range options {
		option(pod)
	}
	return pod
}

func podReady(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// podCreatedAt: it was created that number of seconds after noon.
func podCreatedAt(at int) podOption {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(after(at)) }
}

// podWaiting: our container waits, and why.
func podWaiting(reason string) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: ContainerName, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason},
		}}}
	}
}

// podEnded: our container ended that number of seconds after noon.
func podEnded(exitCode int32, reason string, at int) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		if exitCode != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: ContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, FinishedAt: metav1.NewTime(after(at))},
		}}}
	}
}

// podTerminating: it was deleted that number of seconds after noon, with a grace period of 30.
func podTerminating(at int) podOption {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = timeAt(after(at + 30))
		pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
	}
}

func podOfOldSpec(pod *corev1.Pod)  { pod.Annotations[AnnotationSpecHash] = "0123456789abcdef" }
func podUnlabelled(pod *corev1.Pod) { delete(pod.Labels, controller.LabelManagedBy) }

// podForeign: another client has created it, with our label.
func podForeign(pod *corev1.Pod) { pod.OwnerReferences, pod.Annotations = nil, nil }

// podOrphan: its ImmortalContainer, an earlier one, was deleted with --cascade=orphan.
func podOrphan(pod *corev1.Pod) {
	pod.OwnerReferences, pod.Labels[LabelControllerUID] = nil, "uid-of-an-earlier-x"
}

func podOfEarlierOwner(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "uid-of-an-earlier-x" }

// terminationOfPod is what is recorded of a Pod that podEnded ended.
func terminationOfPod(exitCode int32, reason string, at int) statusOption {
	return func(status *v1alpha1.ImmortalContainerStatus) {
		status.LastTermination = &v1alpha1.Termination{
			Reason: reason, ExitCode: ptr.To(exitCode), FinishedAt: metav1.NewTime(after(at)), Pod: "x-immortalpod",
		}
	}
}

// describe is the plan as lines: short enough to read, long enough to tell all that matters.
func describe(p controller.Plan) []string {
	lines := []string{}
	for _, ask := range p.Asks {
		lines = append(lines, ask.String())
	}
	for _, s := range p.Steps {
		if write, ok := s.(writeStatus); ok {
			lines = append(lines, describeStatus(write.status))
			continue
		}
		lines = append(lines, s.String())
	}
	if p.RequeueAfter != 0 {
		lines = append(lines, "again after "+p.RequeueAfter.String())
	}
	return lines
}

func describeStatus(status v1alpha1.ImmortalContainerStatus) string {
	var line strings.Builder
	fmt.Fprintf(&line, "status: start %d, seen %d, generation %d", status.StartTimes, status.ObservedStart, status.ObservedGeneration)
	if status.CurrentPod != "" || status.PodPhase != "" {
		fmt.Fprintf(&line, ", Pod %s %s", status.CurrentPod, status.PodPhase)
	}
	for _, conditionType := range []string{"Ready", "Progressing", "Conflict"} {
		if c := meta.FindStatusCondition(status.Conditions, conditionType); c != nil {
			fmt.Fprintf(&line, ", %s=%s %s", c.Type, c.Status, c.Reason)
		}
	}
	if last := status.LastTermination; last != nil {
		fmt.Fprintf(&line, ", last %s", last.Reason)
		if last.ExitCode != nil {
			fmt.Fprintf(&line, " %d", *last.ExitCode)
		}
	}
	if status.ConsecutiveTerminations != 0 {
		fmt.Fprintf(&line, ", %d in a row", status.ConsecutiveTerminations)
	}
	if status.NextStartTime != nil {
		fmt.Fprintf(&line, ", next %s", status.NextStartTime.UTC().Format(time.TimeOnly))
	}
	return line.String()
}

func diffLines(want, got []string) string { return cmp.Diff(want, got) }
