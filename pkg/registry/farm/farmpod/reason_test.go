// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheReasonIsWhatKubectlShowsAsStatus(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"a Pod that runs", testPod("a"), "Running"},
		{"a Pod that waits for a node", testPod("a", phase(corev1.PodPending), containers()), "Pending"},
		{"a Pod that is kept from the scheduler", testPod("a", phase(corev1.PodPending), containers(), condition(corev1.PodScheduled, corev1.ConditionFalse, "SchedulingGated")), "SchedulingGated"},
		{"an evicted Pod", testPod("a", phase(corev1.PodFailed), statusReason("Evicted"), containers()), "Evicted"},
		{"a Pod that is made", testPod("a", phase(corev1.PodPending), containers(waiting("main", "ContainerCreating"))), "ContainerCreating"},
		{"a container that waits and does not say for what", testPod("a", phase(corev1.PodPending), containers(waiting("main", ""))), "Pending"},
		{"a container that fails again and again", testPod("a", containers(waiting("main", "CrashLoopBackOff"))), "CrashLoopBackOff"},
		{"of two containers the first that has something to say", testPod("a", containers(waiting("main", "ImagePullBackOff"), waiting("other", "CrashLoopBackOff"))), "ImagePullBackOff"},
		{"a second container that has something to say", testPod("a", containers(running("main"), ended("other", "Error", 1, 0))), "Error"},
		{"a container that was killed for its memory", testPod("a", containers(ended("main", "OOMKilled", 137, 9))), "OOMKilled"},
		{"a container that has ended without a reason", testPod("a", containers(ended("main", "", 3, 0))), "ExitCode:3"},
		{"a container that was ended by a signal", testPod("a", containers(ended("main", "", 137, 9))), "Signal:9"},
		{"a Pod that has done its work", testPod("a", phase(corev1.PodSucceeded), containers(ended("main", "Completed", 0, 0))), "Completed"},
		{"a Pod of whose containers one has done its work", testPod("a", containers(ended("main", "Completed", 0, 0), running("other"))), "Running"},
		{"such a Pod that is not ready", testPod("a", containers(ended("main", "Completed", 0, 0), running("other")), condition(corev1.PodReady, corev1.ConditionFalse, "")), "NotReady"},
		{"such a Pod of which another container has failed", testPod("a", containers(ended("main", "Completed", 0, 0), ended("other", "Error", 1, 0),
			running("third")), condition(corev1.PodReady, corev1.ConditionFalse, "")), "Error"},
		{"a completed container and one that is not ready", testPod("a", containers(ended("main", "Completed", 0, 0), notReady(running("other")))), "Completed"},

		{"a Pod that is deleted", testPod("a", deleted), "Terminating"},
		{"a failing Pod that is deleted", testPod("a", deleted, containers(waiting("main", "CrashLoopBackOff"))), "Terminating"},
		{"a Pod that is deleted while it is made ready", testPod("a", deleted, initContainers(running("first"))), "Terminating"},
		{"a deleted Pod on a lost node", testPod("a", deleted, statusReason("NodeLost")), "Unknown"},
		{"a Pod on a lost node that is not deleted", testPod("a", statusReason("NodeLost"), containers()), "NodeLost"},
		{"a Pod that had ended before it was deleted", testPod("a", deleted, phase(corev1.PodSucceeded), containers(ended("main", "Completed", 0, 0))), "Completed"},
		{"a Pod that had failed before it was deleted", testPod("a", deleted, phase(corev1.PodFailed), containers(ended("main", "Error", 1, 0))), "Error"},

		{"the first of two init containers runs", testPod("a", initContainers(running("first"), waiting("second", "PodInitializing"))), "Init:0/2"},
		{"the second of two init containers runs", testPod("a", initContainers(ended("first", "Completed", 0, 0), running("second"))), "Init:1/2"},
		{"an init container waits to be started", testPod("a", initContainers(waiting("first", "PodInitializing"))), "Init:0/1"},
		{"an init container that fails again and again", testPod("a", initContainers(waiting("first", "CrashLoopBackOff"))), "Init:CrashLoopBackOff"},
		{"an init container that has failed", testPod("a", initContainers(ended("first", "Error", 1, 0))), "Init:Error"},
		{"an init container that has failed without a reason", testPod("a", initContainers(ended("first", "", 2, 0))), "Init:ExitCode:2"},
		{"an init container that was ended by a signal", testPod("a", initContainers(ended("first", "", 143, 15))), "Init:Signal:15"},
		{"all init containers are done", testPod("a", initContainers(ended("first", "Completed", 0, 0))), "PodInitializing"},
		{"an init container is run again in a Pod that was initialized", testPod("a", initContainers(running("first")), initialized, containers(running("main"))), "Init:0/1"},
		{"a container of a Pod that was initialized says more than its init container", testPod("a", initContainers(running("first")), initialized, containers(waiting("main", "CrashLoopBackOff"))), "CrashLoopBackOff"},

		{"a sidecar that has not started holds the Pod up", testPod("a", initContainers(waiting("proxy", "PodInitializing")), sidecar("proxy")), "Init:0/1"},
		{"a sidecar that has started does not", testPod("a", initContainers(running("proxy"), running("second")), sidecar("proxy")), "Init:1/2"},
		{"an init container that has started does", testPod("a", initContainers(running("first"), running("second"))), "Init:0/2"},
		{"a Pod with a sidecar runs", testPod("a", initContainers(running("proxy")), sidecar("proxy"), initialized, phase(corev1.PodRunning), containers(running("main"))), "Running"},
		{"a sidecar that fails again and again", testPod("a", initContainers(waiting("proxy", "CrashLoopBackOff")), sidecar("proxy")), "Init:CrashLoopBackOff"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := reason(test.pod); got != test.want {
				t.Errorf("reason is %q, want %q", got, test.want)
			}
		})
	}
}

func TestRestartsAndReadyContainersAreCounted(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want counts
	}{
		{"containers that run", testPod("a", containers(restarted(2, running("main")), restarted(1, running("other")))), counts{ready: 2, restarts: 3}},
		{"a container that is not ready", testPod("a", containers(notReady(running("main")), running("other"))), counts{ready: 1}},
		{"a container that has ended is not ready, whatever it says", testPod("a", containers(func() corev1.ContainerStatus {
			status := ended("main", "Completed", 0, 0)
			status.Ready = true
			return status
		}())), counts{}},
		{"a Pod that waits for its second init container", testPod("a", initContainers(ended("first", "Completed", 0, 0), restarted(4, running("second")))), counts{restarts: 4}},
		{"an init container is run again in a Pod that was initialized", testPod("a", initContainers(restarted(4, running("first"))), initialized, containers(restarted(1, running("main")))), counts{ready: 1, restarts: 1}},
		{"init containers of a Pod that runs are history", testPod("a", initContainers(restarted(4, ended("first", "Completed", 0, 0))), initialized,
			containers(restarted(1, running("main")))), counts{ready: 1, restarts: 1}},
		{"sidecars of a Pod that runs are not", testPod("a", initContainers(restarted(4, running("proxy")), restarted(8, ended("second", "Completed",
			0, 0))), sidecar("proxy"), initialized, containers(restarted(1, running("main")))), counts{ready: 1, restarts: 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := count(test.pod); got != test.want {
				t.Errorf("counted %+v, want %+v", got, test.want)
			}
		})
	}
}
