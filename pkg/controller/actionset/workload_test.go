// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
)

func ownedBy(uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{UID: uid, Controller: &yes}}
}

func TestWorkloadOf(t *testing.T) {
	pod := func(name string, owner types.UID, phase corev1.PodPhase, containers ...string) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: ownedBy(owner)}, Status: corev1.PodStatus{Phase: phase}}
		for _, container := range containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container})
		}
		return pod
	}
	mounts := func(pod corev1.Pod, claim, path string) corev1.Pod {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		last := len(pod.Spec.Containers) - 1
		pod.Spec.Containers[last].VolumeMounts = append(pod.Spec.Containers[last].VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: path})
		return pod
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", UID: "db"}}
	var pods []workloadPod
	for _, listed := range []corev1.Pod{
		mounts(pod("db-1", "db", corev1.PodRunning, "main", "side"), "data-db-1", "/data"),
		pod("db-0", "db", corev1.PodRunning, "main"),
		pod("db-2", "db", corev1.PodPending, "main"),
		pod("theirs", "other", corev1.PodRunning, "main"),
	} {
		if pod, ok := workloadPodOf(&listed, set); ok {
			pods = append(pods, pod)
		}
	}
	got := workloadOf(set, pods)
	want := &blueprint.Workload{
		Name: "db", Namespace: "ns", Pods: []string{"db-0", "db-1"}, Containers: [][]string{{"main"}, {"main", "side"}},
		PersistentVolumeClaims: map[string]map[string]string{"db-1": {"data-db-1": "/data"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResourceOfSubject(t *testing.T) {
	type where struct {
		schema.GroupVersionResource
		namespace string
	}
	for kind, test := range map[string]struct {
		reference v1alpha1.ObjectReference
		want      where
	}{
		"Deployment":  {v1alpha1.ObjectReference{Namespace: "app"}, where{appsv1.SchemeGroupVersion.WithResource("deployments"), "app"}},
		"StatefulSet": {v1alpha1.ObjectReference{}, where{appsv1.SchemeGroupVersion.WithResource("statefulsets"), "own"}},
		"pvc":         {v1alpha1.ObjectReference{}, where{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "own"}},
		"namespace":   {v1alpha1.ObjectReference{Namespace: "app"}, where{corev1.SchemeGroupVersion.WithResource("namespaces"), ""}},
		"Widget": {
			v1alpha1.ObjectReference{Group: "example.com", APIVersion: "v2", Resource: "widgets", Namespace: "app"},
			where{schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}, "app"},
		},
		"": {v1alpha1.ObjectReference{APIVersion: "v1", Resource: "nodes"}, where{corev1.SchemeGroupVersion.WithResource("nodes"), ""}},
	} {
		test.reference.Kind = kind
		resource, namespace := resourceOf(&test.reference, "own")
		if got := (where{resource, namespace}); got != test.want {
			t.Errorf("%s: %v, want %v", kind, got, test.want)
		}
	}
}
