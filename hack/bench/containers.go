// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

const (
	image          = "nginx:latest"
	containersSeen = "ImmortalContainers"
)

// containersOf is a cold start of ImmortalContainers, and the recovery from the deletion of all their Pods.
func containersOf(count int) *workload {
	return &workload{
		resource: v1alpha1.Resource("immortalcontainers").WithVersion(v1alpha1.GroupVersion.Version),
		count:    count,
		create:   createContainer,
		observe:  observeContainers,
		requests: []string{"PUT immortalcontainers/status", "POST pods"},
		phases: []phase{
			{
				name: "cold start", title: "cold start of %d, until all are Ready",
				milestones: []milestone{{kind: containersSeen, mark: readyInStart(1)}}, events: 1, requestsGoal: 4,
			},
			{
				name: "recovery", title: "recovery of %d deleted Pods, until all are Ready",
				disturb:    deletionOfPods,
				milestones: []milestone{{kind: containersSeen, mark: readyInStart(2)}}, events: 2, requestsGoal: 4,
			},
		},
	}
}

func createContainer(ctx context.Context, p *population, name string) error {
	_, err := p.client.ImmortalcontainersV1alpha1().ImmortalContainers(p.namespace).Create(ctx, &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: image},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating ImmortalContainer %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

func observeContainers(ctx context.Context, p *population, o *observer) error {
	containers := p.client.ImmortalcontainersV1alpha1().ImmortalContainers(p.namespace)
	if err := o.follow(ctx, containersSeen, metav1.ListOptions{}, containers.Watch, markOfContainer); err != nil {
		return err
	}
	return o.followEvents(ctx, p, "ImmortalContainer")
}

func markOfContainer(event watch.Event) (key, mark string) {
	container := event.Object.(*v1alpha1.ImmortalContainer)
	if meta.IsStatusConditionTrue(container.Status.Conditions, v1alpha1.ConditionReady) {
		mark = readyInStart(container.Status.StartTimes)
	}
	return container.Name, mark
}

func readyInStart(number int64) string { return fmt.Sprintf("Ready in start %d", number) }

// deletionOfPods deletes all Pods with their default grace period, in parallel: a single request for all of them is carried
// out one by one in the API server, and would set the pace.
func deletionOfPods(ctx context.Context, p *population) (do func() error, err error) {
	pods, err := p.kubeClient.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of namespace %s: %w", p.namespace, err)
	}
	names := make([]string, 0, len(pods.Items))
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return func() error { return p.deletePods(ctx, names) }, nil
}

func (p *population) deletePods(ctx context.Context, names []string) error {
	pods := p.kubeClient.CoreV1().Pods(p.namespace)
	return inParallel(ctx, len(names), func(ctx context.Context, i int) error {
		if err := pods.Delete(ctx, names[i], metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting Pod %s/%s: %w", p.namespace, names[i], err)
		}
		return nil
	})
}
