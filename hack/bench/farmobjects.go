// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	farmstoragev1 "millwright.dev/pkg/apis/farmstorage/v1"
)

// createFarmPods makes Pods such as a Deployment's, on all nodes in turn, and waits until they run.
func (p *population) createFarmPods(ctx context.Context) error {
	nodes, err := p.kubeClient.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	err = inParallel(ctx, p.count, func(ctx context.Context, i int) error {
		pod := farmPod(objectName(i), nodes.Items[i%len(nodes.Items)].Name)
		if _, err := p.kubeClient.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Pod %s/%s: %w", p.namespace, pod.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 10*pollInterval, milestoneTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := p.kubeClient.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the Pods of namespace %s to run: %w", p.namespace, err)
	}
	return sleep(ctx, calmPause)
}

func farmPod(name, node string) *corev1.Pod {
	container := func(name string, port int32) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3", Args: []string{"--config=/etc/config/config.yaml", "--listen=:8080"},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString(name)}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
		}
		for i := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "SETTING_" + strconv.Itoa(i), Value: "value-of-the-setting-" + strconv.Itoa(i)})
		}
		return c
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name, "pod-template-hash": "5d4f8c7b9"}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{container("web", 8080), container("log", 8081)},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func llama(name string) *farmv1alpha.Llama {
	return &farmv1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"herd": "north"}}, Spec: farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5}}
}

func (p *population) createLlama(ctx context.Context, name string) error {
	if _, err := p.client.FarmV1alpha().Llamas(p.namespace).Create(ctx, llama(name), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Llama %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

// createRecord creates one with the contents of another.
func (p *population) createRecord(ctx context.Context, name string, contents runtime.RawExtension) error {
	record := &farmstoragev1.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: llama(name).Labels}, Spec: farmstoragev1.LlamaRecordSpec{Object: contents}}
	if _, err := p.client.FarmStorageV1().LlamaRecords(p.namespace).Create(ctx, record, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating LlamaRecord %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

// contents of the record of a Llama, so that others can be made that are as large.
func (p *population) contents(ctx context.Context, name string) (runtime.RawExtension, error) {
	record, err := p.client.FarmStorageV1().LlamaRecords(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return runtime.RawExtension{}, fmt.Errorf("reading the record of Llama %s/%s: %w", p.namespace, name, err)
	}
	return record.Spec.Object, nil
}

// timed is how long something took, in seconds.
func timed(do func() error) (float64, error) {
	begin := time.Now()
	err := do()
	return time.Since(begin).Seconds(), err
}
