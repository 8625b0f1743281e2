// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

const deploymentName = "web"

// deploymentRuns lets a Deployment, and so kube-controller-manager without limits, bring back as many Pods. It does not do
// the same: its Pods get new names, so that none has to wait until another is gone, and it counts no starts.
func (b *bench) deploymentRuns(ctx context.Context) error {
	p, err := b.newPopulation(ctx, b.count)
	if err != nil {
		return err
	}
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	pods := newObserver()
	if err := pods.follow(observing, podsSeen, metav1.ListOptions{}, p.kubeClient.CoreV1().Pods(p.namespace).Watch, markOfPod); err != nil {
		return err
	}
	if err := p.createDeployment(ctx); err != nil {
		return err
	}
	if _, err := pods.awaitOthers(ctx, p.count, nil); err != nil {
		return err
	}
	if _, err := p.awaitDeployment(ctx); err != nil {
		return err
	}
	old := pods.marked(podsSeen)
	begin := time.Now()
	if err := p.deletePods(ctx, slices.Collect(maps.Values(old))); err != nil {
		return err
	}
	if _, err := pods.awaitOthers(ctx, p.count, old); err != nil {
		return fmt.Errorf("recovery of a Deployment: %w", err)
	}
	ready, err := p.awaitDeployment(ctx)
	if err != nil {
		return fmt.Errorf("recovery of a Deployment: %w", err)
	}
	b.measured.deployments = append(b.measured.deployments, ready.Sub(begin).Seconds())
	b.say("Deployment: recovery %.2f s", ready.Sub(begin).Seconds())
	stopObserving()
	return p.remove(ctx)
}

// awaitOthers waits until so many Pods are ready that are none of those of before.
func (o *observer) awaitOthers(ctx context.Context, count int, before map[string]string) (time.Time, error) {
	return o.awaitThat(ctx, count, milestone{kind: podsSeen, mark: "ready"}, func(ready map[string]string) (others int) {
		for uid := range ready {
			if _, old := before[uid]; !old {
				others++
			}
		}
		return others
	})
}

func (p *population) createDeployment(ctx context.Context) error {
	labels := map[string]string{"app": deploymentName}
	_, err := p.kubeClient.AppsV1().Deployments(p.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: deploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(p.count)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "acontainer", Image: image}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating Deployment %s/%s: %w", p.namespace, deploymentName, err)
	}
	return nil
}

// awaitDeployment waits until the Deployment says that all its Pods are ready, and returns when it did.
func (p *population) awaitDeployment(ctx context.Context) (ready time.Time, err error) {
	err = wait.PollUntilContextTimeout(ctx, pollInterval, milestoneTimeout, true, func(ctx context.Context) (bool, error) {
		deployment, err := p.kubeClient.AppsV1().Deployments(p.namespace).Get(ctx, deploymentName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready = time.Now()
		return int(deployment.Status.ReadyReplicas) == p.count && int(deployment.Status.Replicas) == p.count, nil
	})
	if err != nil {
		return ready, fmt.Errorf("waiting for Deployment %s/%s to be ready: %w", p.namespace, deploymentName, err)
	}
	return ready, nil
}
