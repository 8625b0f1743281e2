// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/traffic"
	helloappsv1 "millwright.dev/pkg/apis/apps/v1"
	containersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// wait is what an object's child must have become before something is sent. until is nil if there is nothing to wait for; it
// is called with nil while there is no child.
type wait struct {
	what  string
	until func(child metav1.Object) bool
}

var (
	// A start is reserved, and a Pod created, when there is none.
	untilGone = wait{"gone", func(child metav1.Object) bool { return child == nil }}
	// A status speaks of a Pod that terminates; it may be faster than that.
	untilTerminating = wait{"terminating", func(child metav1.Object) bool { return child == nil || child.GetDeletionTimestamp() != nil }}
	// The status that says that all is well.
	untilReady = wait{"ready", isReadyPod}
)

func isReadyPod(child metav1.Object) bool {
	pod, ok := child.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitOfContainer tells from a status what its author had seen of the Pod.
func waitOfContainer(r traffic.Request) (wait, error) {
	switch r.Kind() {
	case "create pods":
		return untilGone, nil
	case "update immortalcontainers/status":
	default:
		return wait{}, nil
	}
	container := &containersv1alpha1.ImmortalContainer{}
	if err := json.Unmarshal(r.Body, container); err != nil {
		return wait{}, err
	}
	status := &container.Status
	if meta.IsStatusConditionTrue(status.Conditions, containersv1alpha1.ConditionReady) {
		return untilReady, nil
	}
	progressing := meta.FindStatusCondition(status.Conditions, containersv1alpha1.ConditionProgressing)
	switch {
	case progressing != nil && progressing.Reason == containersv1alpha1.ReasonWaitingForTermination:
		return untilTerminating, nil
	case status.StartTimes > status.ObservedStart:
		return untilGone, nil
	}
	return wait{}, nil
}

// waitOfApp tells from a status how far its author had seen the Deployment come.
func waitOfApp(r traffic.Request) (wait, error) {
	if r.Kind() != "update helloapps/status" {
		return wait{}, nil
	}
	app := &helloappsv1.HelloApp{}
	if err := json.Unmarshal(r.Body, app); err != nil {
		return wait{}, err
	}
	seen := app.Status
	if seen.Replicas+seen.UpdatedReplicas+seen.ReadyReplicas+seen.AvailableReplicas == 0 {
		return wait{}, nil // that of a Deployment that was just applied
	}
	return wait{"come as far", func(child metav1.Object) bool {
		deployment, ok := child.(*appsv1.Deployment)
		if !ok {
			return false
		}
		now := &deployment.Status
		return now.Replicas >= seen.Replicas && now.UpdatedReplicas >= seen.UpdatedReplicas &&
			now.ReadyReplicas >= seen.ReadyReplicas && now.AvailableReplicas >= seen.AvailableReplicas
	}}, nil
}
