// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "millwright.dev/pkg/apis/apps/v1"
)

const (
	deploymentsSeen = "Deployments"
	applied         = "applied"
	appsSeen        = "HelloApps"
	available       = "Ready"
)

// appsOf is a cold start of HelloApps of one Pod.
func appsOf(count int) *workload {
	return &workload{
		resource: v1.Resource("helloapps").WithVersion(v1.GroupVersion.Version),
		count:    count,
		create:   createApp,
		observe:  observeApps,
		requests: []string{"APPLY deployments", "PUT helloapps/status"},
		phases: []phase{{
			name: "cold start", title: "cold start of %d HelloApps, until all Deployments are applied",
			milestones: []milestone{{kind: deploymentsSeen, mark: applied}, {kind: appsSeen, mark: available}}, events: 1,
			requestsGoal: 1 + 3 + 1, // the Deployment, the status until it is available, one event
		}},
	}
}

func createApp(ctx context.Context, p *population, name string) error {
	_, err := p.client.AppsV1().HelloApps(p.namespace).Create(ctx, &v1.HelloApp{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.HelloAppSpec{Size: 1, Image: image},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating HelloApp %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

func observeApps(ctx context.Context, p *population, o *observer) error {
	if err := o.follow(ctx, deploymentsSeen, metav1.ListOptions{}, p.kubeClient.AppsV1().Deployments(p.namespace).Watch, markOfDeployment); err != nil {
		return err
	}
	if err := o.follow(ctx, appsSeen, metav1.ListOptions{}, p.client.AppsV1().HelloApps(p.namespace).Watch, markOfApp); err != nil {
		return err
	}
	return o.followEvents(ctx, p, "HelloApp")
}

func markOfDeployment(event watch.Event) (key, mark string) {
	return event.Object.(*appsv1.Deployment).Name, applied
}

func markOfApp(event watch.Event) (key, mark string) {
	app := event.Object.(*v1.HelloApp)
	if meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionReady) {
		mark = available
	}
	return app.Name, mark
}
