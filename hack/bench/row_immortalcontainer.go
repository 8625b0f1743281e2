// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/hack/bench/bareclient"
	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

const image = "nginx:latest"

var containerResource = v1alpha1.Resource("immortalcontainers").WithVersion(v1alpha1.GroupVersion.Version)

var immortalContainers = scenario{
	name: "immortalcontainer", about: "cold start of ImmortalContainers, and recovery of all their Pods, over the bare client",
	size: 1000, quickSize: 50, podsPerObject: 2, // before and after the recovery
	measure: func(ctx context.Context, t *turn) error { return t.contest(ctx, &containerWorkload) },
}

var containerWorkload = workload{
	resource: containerResource,
	create:   createContainer,
	observe: func(ctx context.Context, n *namespace, o *observer) error {
		containers := n.client.ImmortalcontainersV1alpha1().ImmortalContainers(n.name)
		if err := o.follow(ctx, "ImmortalContainers", metav1.ListOptions{}, containers.Watch, markOfContainer); err != nil {
			return err
		}
		return o.followEvents(ctx, n, "ImmortalContainer")
	},
	phases: []phase{
		{name: "cold start", reached: readyInStart(1), events: 1, requests: 4},
		{name: "recovery", disturb: deletionOfPods, reached: readyInStart(2), events: 2, requests: 4},
	},
	waits:          waitsOfContainers,
	cpuPerSyncGoal: 1,
}

func createContainer(ctx context.Context, n *namespace, name string) error {
	_, err := n.client.ImmortalcontainersV1alpha1().ImmortalContainers(n.name).Create(ctx, &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ImmortalContainerSpec{Image: image},
	}, metav1.CreateOptions{})
	return err
}

func readyInStart(number int64) milestone {
	return milestone{"ImmortalContainers", fmt.Sprintf("Ready in start %d", number)}
}

// markOfContainer changes in a recovery: the last start is still Ready when the Pods are deleted.
func markOfContainer(event watch.Event) (name, mark string) {
	container := event.Object.(*v1alpha1.ImmortalContainer)
	if meta.IsStatusConditionTrue(container.Status.Conditions, v1alpha1.ConditionReady) {
		mark = readyInStart(container.Status.StartTimes).mark
	}
	return container.Name, mark
}

// deletionOfPods deletes all Pods with their default grace period, in parallel: the API server would carry out a single request for all of
// them one after the other, and would limit the speed.
func deletionOfPods(ctx context.Context, n *namespace) (do func() error, err error) {
	client := n.kubeClient.CoreV1().Pods(n.name)
	pods, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of namespace %s: %w", n.name, err)
	}
	return func() error {
		return inParallel(ctx, writers, len(pods.Items), func(ctx context.Context, i int) error {
			return client.Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{})
		})
	}, nil
}

// waitsOfContainers derives from a status what the operator had seen of the Pod.
var waitsOfContainers = bareclient.Kind{
	Children: corev1.SchemeGroupVersion.WithResource("pods"),
	WaitBefore: func(r traffic.Request) (bareclient.Wait, error) {
		switch r.Kind() {
		case "create pods":
			return podIsGone, nil
		case "update immortalcontainers/status":
		default:
			return nil, nil
		}
		container := &v1alpha1.ImmortalContainer{}
		if err := json.Unmarshal(r.Body, container); err != nil {
			return nil, err
		}
		status := &container.Status
		progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
		switch {
		case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
			return podIsReady, nil
		case progressing != nil && progressing.Reason == v1alpha1.ReasonWaitingForTermination:
			return podTerminates, nil
		case status.StartTimes > status.ObservedStart: // a start is reserved when there is no Pod
			return podIsGone, nil
		}
		return nil, nil
	},
}

func podIsGone(child metav1.Object) bool { return child == nil }

func podTerminates(child metav1.Object) bool {
	return child == nil || child.GetDeletionTimestamp() != nil
}

func podIsReady(child metav1.Object) bool {
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
