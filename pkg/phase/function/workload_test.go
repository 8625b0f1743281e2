// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
)

func TestCurrentReplicaSet(t *testing.T) {
	labels := map[string]string{"app": "web"}
	set := func(name string, owner types.UID, revision string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID(name), Labels: labels, Annotations: map[string]string{annotationRevision: revision},
			OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}},
		}}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "d", Annotations: map[string]string{annotationRevision: "2"}}}
	client := fake.NewClientset(set("old", "d", "1"), set("theirs", "x", "2"))
	want := func(name string) {
		t.Helper()
		read := 0
		count := func(bytes int) error {
			if bytes > 0 {
				read++
			}
			return nil
		}
		current, err := CurrentReplicaSet(t.Context(), client, deployment, &metav1.LabelSelector{MatchLabels: labels}, count)
		if read < 2 {
			t.Errorf("got the sizes of %d ReplicaSets, want those of all", read)
		}
		if name == "" && current != nil || name != "" && (current == nil || current.GetName() != name || current.GetUID() != types.UID(name)) || err != nil {
			t.Errorf("got %v, %v, want %q", current, err, name)
		}
	}
	want("")
	if err := client.Tracker().Add(set("current", "d", "2")); err != nil {
		t.Fatal(err)
	}
	want("current")
}

// A list that expires while its pages are read is read again later, and never as a whole.
func TestExpiredListIsNoFailure(t *testing.T) {
	client, labels := fake.NewClientset(), map[string]string{"app": "web"}
	limits := []int64{}
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		if limits = append(limits, options.Limit); options.Continue != "" {
			return true, nil, apierrors.NewResourceExpired("the continue parameter is too old")
		}
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{Continue: "next"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}, nil
	})
	used := 0
	err := EachPod(t.Context(), client, "ns", &metav1.LabelSelector{MatchLabels: labels}, func(*corev1.Pod) error {
		used++
		return nil
	})
	if _, failed := phase.FailureOf(phase.Definitive(err)); failed || !apierrors.IsResourceExpired(err) || used != 1 {
		t.Errorf("got %v after %d Pods, want the error of the API server, to try again", err, used)
	}
	if slices.Contains(limits, 0) || len(limits) != 2 {
		t.Errorf("limits of the lists: got %d, want two of %d", limits, pageSize)
	}
}
