// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"millwright.dev/pkg/phase"
)

// The time of a merge is the square of the length of a list, and nothing ends it: 8,000 volumes took 18 s.
const (
	// maxOverride is how many bytes of JSON an override has at most, and maxItems how many items each of its lists.
	maxOverride = 64 << 10
	maxItems    = 500
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
		if len(patch) > maxOverride {
			return nil, phase.Failf("podOverride has %d bytes; it may have at most %d", len(patch), maxOverride)
		}
		if items := longestList(override); items > maxItems {
			return nil, phase.Failf("podOverride has a list of %d items; it may have at most %d", items, maxItems)
		}
		if merged, err = strategicpatch.StrategicMergePatch(merged, patch, corev1.PodSpec{}); err != nil {
			return nil, phase.Failf("podOverride does not fit the spec of a Pod: %v", err)
		}
	}
	var value any
	if err := json.Unmarshal(merged, &value); err != nil {
		return nil, phase.Failf("reading podOverride: %v", err)
	}
	if err := checkQuantities(value, reflect.TypeFor[corev1.PodSpec](), "podOverride"); err != nil {
		return nil, phase.Failf("%v", err)
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

// longestList returns the length of the longest list in a JSON value.
func longestList(value any) (length int) {
	switch value := value.(type) {
	case []any:
		length = len(value)
		for _, item := range value {
			length = max(length, longestList(item))
		}
	case map[string]any:
		for _, item := range value {
			length = max(length, longestList(item))
		}
	}
	return length
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
