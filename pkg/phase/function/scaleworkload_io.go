// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// get reads the workload.
func (s *ScaleWorkload) get(ctx context.Context, intent scaleIntent) (*workload, error) {
	if intent.Kind == kindStatefulSet {
		set, err := s.Client.AppsV1().StatefulSets(intent.Namespace).Get(ctx, intent.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return workloadOfStatefulSet(set), nil
	}
	deployment, err := s.Client.AppsV1().Deployments(intent.Namespace).Get(ctx, intent.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
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
	selected := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector)}
	var owner metav1.Object = w
	if w.byReplicaSet {
		sets, err := s.Client.AppsV1().ReplicaSets(w.Namespace).List(ctx, selected)
		if err != nil {
			return false, err
		}
		current := CurrentReplicaSet(w, sets.Items)
		if current == nil {
			return false, nil // the controller has not created it yet
		}
		owner = current
	}
	pods, err := s.Client.CoreV1().Pods(w.Namespace).List(ctx, selected)
	if err != nil {
		return false, err
	}
	return podsAreReady(pods.Items, owner, w.replicas, w.byReplicaSet), nil
}
