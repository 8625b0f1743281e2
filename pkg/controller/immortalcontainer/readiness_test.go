// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadyReasons(t *testing.T) {
	type answer struct {
		Status          metav1.ConditionStatus
		Reason, Message string
	}
	isCondition := func(conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: conditionType, Status: status, Reason: reason, Message: message}
	}
	waiting := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	notReady := isCondition(corev1.PodReady, "False", "ContainersNotReady", "containers with unready status: [acontainer]")
	starting := answer{"False", "PodStarting", "Pod x-immortalpod is starting"}

	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   answer
	}{
		"it is ready": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{isCondition(corev1.PodReady, "True", "", "")}},
			answer{"True", "PodReady", ""},
		},
		"nothing is known of it yet": {corev1.PodStatus{}, starting},
		"it fits on no node": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				isCondition(corev1.PodScheduled, "False", "Unschedulable", "0/3 nodes are available")}},
			answer{"False", "Unschedulable", "0/3 nodes are available"},
		},
		"it waits for a scheduling gate": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				isCondition(corev1.PodScheduled, "False", "SchedulingGated", "gated")}},
			answer{"False", "SchedulingGated", "gated"},
		},
		"its containers are being created, as every Pod's": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{waiting("acontainer", "ContainerCreating", "")}},
			starting,
		},
		"its init containers run, as every Pod's": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{waiting("acontainer", "PodInitializing", "")}},
			starting,
		},
		"its image cannot be pulled": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{waiting("acontainer", "ImagePullBackOff", "Back-off pulling image")}},
			answer{"False", "ImagePullBackOff", "Container acontainer: Back-off pulling image"},
		},
		"an init container crashes: that is why the others wait": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{notReady},
				InitContainerStatuses: []corev1.ContainerStatus{waiting("migrate", "CrashLoopBackOff", "back-off 10s")},
				ContainerStatuses:     []corev1.ContainerStatus{waiting("acontainer", "PodInitializing", "")}},
			answer{"False", "CrashLoopBackOff", "Container migrate: back-off 10s"},
		},
		"its container crashes": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{waiting("acontainer", "CrashLoopBackOff", "back-off 40s")}},
			answer{"False", "CrashLoopBackOff", "Container acontainer: back-off 40s"},
		},
		"a sidecar crashes": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "acontainer"}, waiting("proxy", "CrashLoopBackOff", "back-off 40s")}},
			answer{"False", "CrashLoopBackOff", "Container proxy: back-off 40s"},
		},
		"its probe fails": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady}},
			answer{"False", "ContainersNotReady", "containers with unready status: [acontainer]"},
		},
		"it runs and does not tell why it is not ready": {
			corev1.PodStatus{Phase: corev1.PodRunning},
			answer{"False", "PodNotReady", "Pod x-immortalpod is not ready"},
		},
		"its node is not heard of any more": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{isCondition(corev1.PodReady, "Unknown", "NodeStatusUnknown", "")}},
			answer{"False", "NodeStatusUnknown", ""},
		},
		"a reason that no condition may have is passed over: of the scheduler": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				isCondition(corev1.PodScheduled, "False", "no node for you!", "")}},
			starting,
		},
		"a reason that no condition may have is passed over: of a container": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady},
				ContainerStatuses: []corev1.ContainerStatus{waiting("acontainer", "error: 42", "odd")}},
			answer{"False", "ContainersNotReady", "containers with unready status: [acontainer]"},
		},
		"a reason that no condition may have is passed over: of the Pod": {
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{isCondition(corev1.PodReady, "False", "", "")}},
			answer{"False", "PodNotReady", "Pod x-immortalpod is not ready"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got answer
			got.Status, got.Reason, got.Message = readiness(podOf(1, func(p *corev1.Pod) { p.Status = tc.status }))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if !validReason(got.Reason) {
				t.Errorf("the API server does not accept the reason %q", got.Reason)
			}
		})
	}
}

// An admission webhook may give any reason it likes, or none.
func TestOddReasonMakesAValidCondition(t *testing.T) {
	for _, reason := range []string{"", "policy violation: no latest tag", "Bad-Reason", "42", "Forbidden"} {
		t.Run(reason, func(t *testing.T) {
			o := observed{container: newContainer(withStatus(creating(1, reserved))), now: noon}
			for _, c := range rejectedStatus(o, reason, "denied").Conditions {
				if !validReason(c.Reason) {
					t.Errorf("the API server does not accept the reason %q of %s", c.Reason, c.Type)
				}
			}
		})
	}
}

// validReason follows the schema of metav1.Condition by hand, so that it does not share a mistake with the code.
func validReason(reason string) bool {
	isLetter := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	if reason == "" || len(reason) > 1024 || !isLetter(reason[0]) {
		return false
	}
	for i := range reason {
		c := reason[i]
		inside := c == ',' || c == ':'
		if !isLetter(c) && !isDigit(c) && c != '_' && (!inside || i == len(reason)-1) {
			return false
		}
	}
	return true
}
