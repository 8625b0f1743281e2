// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/phase"
)

// get reads the workload.
func (s *ScaleWorkload) get(ctx context.Context, intent scaleIntent) (*workload, error) {
	phase.AddReads(ctx, 1, 0)
	if intent.Kind == kindStatefulSet {
		set, err := s.Client.AppsV1().StatefulSets(intent.Namespace).Get(ctx, intent.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		addMemory(ctx, set)
		return workloadOfStatefulSet(set), nil
	}
	deployment, err := s.Client.AppsV1().Deployments(intent.Namespace).Get(ctx, intent.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	addMemory(ctx, deployment)
	return workloadOfDeployment(deployment), nil
}

// patch patches the workload, and returns the patched one.
func (s *ScaleWorkload) patch(ctx context.Context, intent scaleIntent, patch map[string]any) (*workload, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	if intent.Kind == kindStatefulSet {
		set, err := s.Client.AppsV1().StatefulSets(intent.Namespace).Patch(ctx, intent.Name, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		return workloadOfStatefulSet(set), nil
	}
	deployment, err := s.Client.AppsV1().Deployments(intent.Namespace).Patch(ctx, intent.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return workloadOfDeployment(deployment), nil
}

// ready reports whether the workload has the replicas of its spec, all ready. Pods are listed only if its status reports that.
func (s *ScaleWorkload) ready(ctx context.Context, w *workload) (bool, error) {
	if !w.asSpecified {
		return false, nil
	}
	var owner metav1.Object = w
	if w.byReplicaSet {
		current, err := CurrentReplicaSet(ctx, s.Client, w, w.selector, nil)
		if err != nil || current == nil {
			return false, err // without an error, the controller has not created it yet
		}
		owner = current
	}
	var pods podCount
	if err := EachPod(ctx, s.Client, w.Namespace, w.selector, func(pod *corev1.Pod) error {
		pods.add(pod, owner)
		return nil
	}); err != nil {
		return false, err
	}
	// Of a Deployment no Pod may be left that does not run, ended ones excepted.
	return pods.running == w.replicas && (pods.others == 0 || !w.byReplicaSet), nil
}
