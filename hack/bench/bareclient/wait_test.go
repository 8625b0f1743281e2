// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/hack/bench/traffic"
	helloappsv1 "millwright.dev/pkg/apis/apps/v1"
)

// waiting is an object whose next step waits so.
func waiting(w wait) *object {
	return &object{steps: []step{{wait: w}}}
}

func TestAnObjectIsParkedUntilItsPodIsWhatTheNextStepWaitsFor(t *testing.T) {
	pod := &corev1.Pod{}
	readyPod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	deletedPod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}

	o := waiting(untilReady)
	if !o.park() {
		t.Fatal("it goes on without a Pod")
	}
	if o.saw(watch.Added, pod) {
		t.Error("it goes on with a Pod that is not ready")
	}
	if !o.saw(watch.Modified, readyPod) {
		t.Error("it does not go on when the Pod is ready")
	}
	if o.saw(watch.Modified, readyPod) {
		t.Error("it is handed out twice")
	}

	o.steps = []step{{wait: untilGone}}
	if !o.park() || o.saw(watch.Modified, deletedPod) {
		t.Error("it does not wait until the Pod is gone")
	}
	if !o.saw(watch.Deleted, deletedPod) {
		t.Error("it does not go on when the Pod is gone")
	}
	o.steps = []step{{wait: untilTerminating}}
	if o.park() {
		t.Error("it waits for a Pod to terminate that is gone")
	}
}

func TestAStatusThatCountsPodsWaitsUntilTheDeploymentHasComeAsFar(t *testing.T) {
	statusOf := func(replicas, available int32) wait {
		body, err := json.Marshal(&helloappsv1.HelloApp{Status: helloappsv1.HelloAppStatus{Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: available}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := waitOfApp(traffic.Request{Verb: "update", Resource: "helloapps/status", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	deployment := func(replicas, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: available}}
	}
	if waiting(statusOf(0, 0)).park() {
		t.Error("the status of a Deployment that was just applied waits")
	}
	o := waiting(statusOf(2, 1))
	if !o.park() {
		t.Fatal("it goes on without a Deployment")
	}
	if o.saw(watch.Added, deployment(2, 0)) {
		t.Error("it goes on before a Pod is available")
	}
	if !o.saw(watch.Modified, deployment(2, 2)) {
		t.Error("it does not go on with a Deployment that has come farther")
	}
}
