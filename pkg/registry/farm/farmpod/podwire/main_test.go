// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bytes"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"go.uber.org/goleak"
	"sigs.k8s.io/randfill"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

// randomPods are Pods with all kinds of fields, known here or not, and the same ones for each seed.
func randomPods(seed int64, count int) []corev1.Pod {
	filler := randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(0, 3).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("1") },
	)
	pods := make([]corev1.Pod, count)
	for i := range pods {
		filler.Fill(&pods[i])
	}
	return pods
}

func protobuf(t testing.TB) runtime.SerializerInfo {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("client-go has lost protobuf")
	}
	return info
}

func encode(t testing.TB, encoder runtime.Encoder, object runtime.Object) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(encoder, corev1.SchemeGroupVersion).Encode(object, &data); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// encodeEvents as the API server sends them.
func encodeEvents(t testing.TB, events ...watch.Event) []byte {
	t.Helper()
	var stream bytes.Buffer
	info := protobuf(t)
	frames := info.StreamSerializer.Framer.NewFrameWriter(&stream)
	for _, event := range events {
		raw := runtime.RawExtension{Raw: encode(t, info.Serializer, event.Object)}
		if _, err := frames.Write(encode(t, info.StreamSerializer.Serializer, &metav1.WatchEvent{Type: string(event.Type), Object: raw})); err != nil {
			t.Fatal(err)
		}
	}
	return stream.Bytes()
}

// known are the fields that are read, of a Pod that was decoded whole.
func known(pod *corev1.Pod) *corev1.Pod {
	k := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds, Labels: pod.Labels,
			Annotations: pod.Annotations,
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: knownContainers(pod.Spec.Containers),
			InitContainers: knownContainers(pod.Spec.InitContainers)},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason,
			ContainerStatuses: knownStatuses(pod.Status.ContainerStatuses), InitContainerStatuses: knownStatuses(pod.Status.InitContainerStatuses),
		},
	}
	for _, c := range pod.Status.Conditions {
		k.Status.Conditions = append(k.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return k
}

func knownContainers(containers []corev1.Container) (known []corev1.Container) {
	for _, c := range containers {
		known = append(known, corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy})
	}
	return known
}

func knownStatuses(statuses []corev1.ContainerStatus) (known []corev1.ContainerStatus) {
	for _, s := range statuses {
		k := corev1.ContainerStatus{Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount, Started: s.Started}
		if s.State.Waiting != nil {
			k.State.Waiting = &corev1.ContainerStateWaiting{Reason: s.State.Waiting.Reason}
		}
		if s.State.Running != nil {
			k.State.Running = &corev1.ContainerStateRunning{}
		}
		if ended := s.State.Terminated; ended != nil {
			k.State.Terminated = &corev1.ContainerStateTerminated{Reason: ended.Reason, ExitCode: ended.ExitCode, Signal: ended.Signal}
		}
		known = append(known, k)
	}
	return known
}
