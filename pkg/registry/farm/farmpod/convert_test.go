// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestAFarmPodShowsItsPod(t *testing.T) {
	pod := testPod("dolly", initContainers(ended("first", "Completed", 0, 0)), initialized, phase(corev1.PodRunning), containers(restarted(2,
		running("main")), notReady(running("log"))))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &epoch, ptr.To(int64(30))
	pod.Annotations = map[string]string{"note": "kept", corev1.LastAppliedConfigAnnotation: "{}"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "dolly"}}
	pod.Finalizers = []string{"example.com/hold"}
	pod.GenerateName, pod.Generation = "dol", 3
	before := pod.DeepCopy()

	want := &farm.FarmPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "farm-dolly", Namespace: "barn", UID: "1ea5b6ae-70d9-5db9-9aaa-7f7516bf7eb5", ResourceVersion: "41", CreationTimestamp: epoch,
			DeletionTimestamp: &epoch, DeletionGracePeriodSeconds: ptr.To(int64(30)),
			Labels: map[string]string{"app": "dolly"}, Annotations: map[string]string{"note": "kept"},
		},
		Spec: farm.FarmPodSpec{Containers: 2},
		Status: farm.FarmPodStatus{
			PodName: "dolly", NodeName: "node-1", Phase: corev1.PodRunning, Reason: "Terminating",
			ReadyContainers: 1, InitContainers: 1, Restarts: 2, Images: []string{"example.com/main:1", "example.com/log:1"},
		},
	}
	if diff := cmp.Diff(want, convert(pod)); diff != "" {
		t.Errorf("FarmPod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the Pod has changed (-before +after):\n%s", diff)
	}
}

func TestFarmPodUID(t *testing.T) {
	pod, other := testPod("dolly"), testPod("dolly")
	other.UID = "b1f0b0d4-53b2-4c94-8b9a-2f7b7a9f9c11"
	if convert(pod).UID == pod.UID {
		t.Error("the FarmPod has the UID of its Pod")
	}
	if convert(pod).UID == convert(other).UID {
		t.Error("a Pod that was made again has a FarmPod with the UID of before")
	}
}

func TestBookmark(t *testing.T) {
	got := convertBookmark(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	want := &farm.FarmPod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bookmark (-want +got):\n%s", diff)
	}
}

func TestOnlyNamesWithThePrefixAreThoseOfFarmPods(t *testing.T) {
	for name, want := range map[string]string{"farm-dolly": "dolly", "farm-farm-dolly": "farm-dolly", "dolly": "", "farm-": "", "farm": "", "": ""} {
		if got, ok := podName(name); ok != (want != "") || ok && got != want {
			t.Errorf("podName(%q) is %q, %v", name, got, ok)
		}
	}
}
