// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/hack/bench/bareclient"
	"millwright.dev/hack/bench/traffic"
	v1 "millwright.dev/pkg/apis/apps/v1"
)

var appResource = v1.Resource("helloapps").WithVersion(v1.GroupVersion.Version)

var helloApps = scenario{
	name: "helloapp", about: "cold start of HelloApps, until all Deployments are applied, over the bare client",
	size: 1000, quickSize: 50, podsPerObject: 1,
	measure: func(ctx context.Context, t *turn) error { return t.contest(ctx, &appWorkload) },
}

var (
	deploymentApplied = milestone{"Deployments", "applied"}
	appReady          = milestone{"HelloApps", "Ready"}
)

var appWorkload = workload{
	resource: appResource,
	create: func(ctx context.Context, n *namespace, name string) error {
		_, err := n.client.AppsV1().HelloApps(n.name).Create(ctx, &v1.HelloApp{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.HelloAppSpec{Size: 1, Image: image},
		}, metav1.CreateOptions{})
		return err
	},
	observe: func(ctx context.Context, n *namespace, o *observer) error {
		deployments, apps := n.kubeClient.AppsV1().Deployments(n.name), n.client.AppsV1().HelloApps(n.name)
		if err := o.follow(ctx, deploymentApplied.kind, metav1.ListOptions{}, deployments.Watch, markOfDeployment); err != nil {
			return err
		}
		if err := o.follow(ctx, appReady.kind, metav1.ListOptions{}, apps.Watch, markOfApp); err != nil {
			return err
		}
		return o.followEvents(ctx, n, "HelloApp")
	},
	phases: []phase{{
		name: "cold start", reached: deploymentApplied, done: appReady, events: 1,
		requests: 1 + 3 + 1, // the Deployment, the status until it is available, one event
	}},
	waits:          waitsOfApps,
	cpuPerSyncGoal: 1,
}

func markOfDeployment(event watch.Event) (name, mark string) {
	return event.Object.(*appsv1.Deployment).Name, deploymentApplied.mark
}

func markOfApp(event watch.Event) (name, mark string) {
	app := event.Object.(*v1.HelloApp)
	if meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionReady) {
		mark = appReady.mark
	}
	return app.Name, mark
}

// waitsOfApps derives from a status what the operator had seen of the Deployment.
var waitsOfApps = bareclient.Kind{
	Children: appsv1.SchemeGroupVersion.WithResource("deployments"),
	WaitBefore: func(r traffic.Request) (bareclient.Wait, error) {
		if r.Kind() != "update helloapps/status" {
			return nil, nil
		}
		app := &v1.HelloApp{}
		if err := json.Unmarshal(r.Body, app); err != nil {
			return nil, err
		}
		seen := app.Status
		if seen.Replicas+seen.UpdatedReplicas+seen.ReadyReplicas+seen.AvailableReplicas == 0 {
			return nil, nil // the Deployment was just applied
		}
		return func(child metav1.Object) bool {
			deployment, ok := child.(*appsv1.Deployment)
			if !ok {
				return false
			}
			now := &deployment.Status
			return now.Replicas >= seen.Replicas && now.UpdatedReplicas >= seen.UpdatedReplicas &&
				now.ReadyReplicas >= seen.ReadyReplicas && now.AvailableReplicas >= seen.AvailableReplicas
		}, nil
	},
}
