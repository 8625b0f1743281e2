// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAHashIsTakenOverTheSetFieldsOnly(t *testing.T) {
	type older struct {
		Image     string                      `json:"image"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	type newer struct {
		More      string                      `json:"more"`
		Resources corev1.ResourceRequirements `json:"resources,omitempty"`
		Image     string                      `json:"image,omitempty"`
		Env       []corev1.EnvVar             `json:"env"`
	}
	limits := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	want := Hash(older{Image: "a", Resources: limits("1")})
	for name, other := range map[string]any{
		"fields that came later and are unset": newer{Image: "a", Resources: limits("1")},
		"an equal quantity":                    older{Image: "a", Resources: limits("1000m")},
	} {
		if got := Hash(other); got != want {
			t.Errorf("with %s it is %s, want %s", name, got, want)
		}
	}
	for name, other := range map[string]any{
		"another image":            older{Image: "b", Resources: limits("1")},
		"another quantity":         older{Image: "a", Resources: limits("2")},
		"a field more that is set": newer{Image: "a", Resources: limits("1"), Env: []corev1.EnvVar{{Name: "A"}}},
	} {
		if got := Hash(other); got == want {
			t.Errorf("with %s it is %s still", name, got)
		}
	}
	// It is stored in clusters: the way in which it is reckoned never changes.
	if want != "c9df44801afc1107" {
		t.Errorf("it is %s, which was another in earlier versions", want)
	}
}
