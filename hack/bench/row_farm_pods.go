// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright.dev/hack/bench/traffic"
)

const (
	acceptJSON = "application/json"
	// acceptTable and tablePage are those of kubectl.
	acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	tablePage   = 500
)

var farmPods = scenario{
	name: "farm-pods", about: "lists of FarmPods by the aggregated API server, over lists of Pods",
	size: 5000, quickSize: 200, podsPerObject: 1, once: true,
	measure: func(ctx context.Context, t *turn) error {
		n, err := t.newNamespace(ctx)
		if err != nil {
			return err
		}
		if err := n.createRunningPods(ctx, t.size); err != nil {
			return err
		}
		ours, theirs := farmPath+"/namespaces/"+n.name+"/farmpods", "/api/v1/namespaces/"+n.name+"/pods"
		err = t.withFarm(ctx, func(ctx context.Context) error {
			err := t.compareLists(ctx, "FarmPods as a table in pages, over Pods", listing{ours, acceptTable, tablePage}, listing{theirs, acceptTable, tablePage})
			if err != nil {
				return err
			}
			return t.compareLists(ctx, "FarmPods as JSON, over Pods", listing{ours, acceptJSON, 0}, listing{theirs, acceptJSON, 0})
		})
		if err != nil {
			return err
		}
		return n.remove(ctx)
	},
}

// createRunningPods creates Pods on all nodes in turn, and waits until they run.
func (n *namespace) createRunningPods(ctx context.Context, number int) error {
	nodes, err := n.kubeClient.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	pods := n.kubeClient.CoreV1().Pods(n.name)
	err = inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		_, err := pods.Create(ctx, largePod(traffic.ObjectName(i), nodes.Items[i%len(nodes.Items)].Name), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the Pods: %w", err)
	}
	err = poll(ctx, "the Pods to run", func() bool {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", Limit: 1})
		return err == nil && len(list.Items) == 0
	})
	if err != nil {
		return err
	}
	return sleep(ctx, calmPause)
}

// largePod is as large as the Pod of a Deployment often is.
func largePod(name, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	for _, name := range []string{"web", "log"} {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3", Args: []string{"--config=/etc/config/config.yaml", "--listen=:8080"},
			Resources:      corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080)}}},
		}
		for i := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "SETTING_" + strconv.Itoa(i), Value: "value-of-the-setting-" + strconv.Itoa(i)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}
