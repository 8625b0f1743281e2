// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"millwright.dev/pkg/phase"
)

// overridden merges overrides into a spec by a strategic merge: containers, volumes and variables are merged by name. A later override
// wins. The main container comes first, where users and tools look for it.
//
// A nodeName becomes an affinity to that node, because a Pod with a scheduling gate cannot have a nodeName. So the scheduler observes taints and
// free resources of that node, which a nodeName would bypass.
func overridden(spec corev1.PodSpec, main string, overrides ...map[string]any) (*corev1.PodSpec, error) {
	merged, err := json.Marshal(spec)
	if err != nil {
		return nil, phase.Failf("writing the spec of the Pod: %v", err)
	}
	for _, override := range overrides {
		if len(override) == 0 {
			continue
		}
		patch, err := json.Marshal(override)
		if err != nil {
			return nil, phase.Failf("reading podOverride: %v", err)
		}
		if merged, err = strategicpatch.StrategicMergePatch(merged, patch, corev1.PodSpec{}); err != nil {
			return nil, phase.Failf("podOverride does not fit the spec of a Pod: %v", err)
		}
	}
	var result corev1.PodSpec
	if err := json.Unmarshal(merged, &result); err != nil {
		return nil, phase.Failf("podOverride does not fit the spec of a Pod: %v", err)
	}
	first := slices.IndexFunc(result.Containers, func(c corev1.Container) bool { return c.Name == main })
	if first < 0 {
		return nil, phase.Failf("podOverride removes the container %s, which prints the outputs", main)
	}
	container := result.Containers[first]
	result.Containers = append([]corev1.Container{container}, slices.Delete(result.Containers, first, first+1)...)
	if result.NodeName != "" {
		toNode(&result, result.NodeName)
		result.NodeName = ""
	}
	return &result, nil
}

// toNode requires that the Pod is scheduled to the node.
func toNode(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	// One of the terms has to match, so each of them gets the requirement.
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
}
