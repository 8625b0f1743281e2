// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/registry/farm/farmpod/podwire"
)

// typicalPod returns a running Pod of a Deployment, with managed fields, in about 3 kB.
func typicalPod(i int) corev1.Pod {
	now := metav1.Now()
	managed := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(strings.Repeat("f:metadata,", 90))}
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("web-7d4b9c6f5d-", i), Namespace: "default", UID: "0d4b9c6f-5d5e-4f00-9f00-000000000001", ResourceVersion: "12345", CreationTimestamp: now,
			Labels:          map[string]string{"app": "web", "pod-template-hash": "7d4b9c6f5d"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b9c6f5d", UID: "u"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{managed("kube-controller-manager", ""), managed("kubelet", "status")},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default",
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
			Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1.2.3", Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets"}}, TerminationMessagePath: "/dev/termination-log"}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists"}, {Key: "node.kubernetes.io/unreachable", Operator: "Exists"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.2.3", StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Ready: true, Image: "registry.example.com/web:1.2.3", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}},
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodReady, corev1.PodInitialized, corev1.PodScheduled, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return pod
}

// BenchmarkList makes FarmPods from a list of 1,000 Pods, with podwire and with the decoder of client-go.
func BenchmarkList(b *testing.B) {
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for i := range 1000 {
		pods.Items = append(pods.Items, typicalPod(i))
	}
	var sent bytes.Buffer
	mustEncode(protobuf().Serializer, pods, &sent)
	decoders := map[string]func(*farm.FarmPodList) error{
		"podwire": func(list *farm.FarmPodList) error {
			_, err := podwire.ReadList(bytes.NewReader(sent.Bytes()), func(pod *corev1.Pod) { convertInto(add(&list.Items), pod) })
			return err
		},
		"client-go": func(list *farm.FarmPodList) error {
			decoded := &corev1.PodList{}
			_, _, err := protobuf().Serializer.Decode(bytes.Clone(sent.Bytes()), nil, decoded)
			for i := range decoded.Items {
				convertInto(add(&list.Items), &decoded.Items[i])
			}
			return err
		},
	}
	for name, decode := range decoders {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(sent.Len()))
			b.ReportAllocs()
			for b.Loop() {
				list := &farm.FarmPodList{}
				if err := decode(list); err != nil || len(list.Items) != len(pods.Items) {
					b.Fatalf("%d FarmPods, error %v", len(list.Items), err)
				}
			}
		})
	}
}
