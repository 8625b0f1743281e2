// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What differs from run to run and means nothing.
var (
	uidPattern         = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern        = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	addressPattern     = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	tokenVolumePattern = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
)

// state of the namespace as comparable text: what differs from run to run anyway is left out.
func (u *User) state(ctx context.Context, resources []schema.GroupVersionResource) (string, error) {
	var text strings.Builder
	for _, resource := range resources {
		list, err := u.Client.Resource(resource).Namespace(u.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		for i := range list.Items {
			object := &list.Items[i]
			object.SetManagedFields(nil)
			object.SetResourceVersion("")
			relateGenerations(object)
			object.SetGeneration(0) // a change that was taken back counts, too
			sortConditions(object.Object)
			encoded, err := json.MarshalIndent(object.Object, "", " ")
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "%s %s\n%s\n", resource.Resource, object.GetName(), encoded)
		}
	}
	state := strings.ReplaceAll(text.String(), u.Namespace, "<namespace>")
	state = uidPattern.ReplaceAllString(state, "<uid>")
	state = timePattern.ReplaceAllString(state, "<time>")
	state = addressPattern.ReplaceAllString(state, "<address>")
	return tokenVolumePattern.ReplaceAllString(state, "<token>"), nil
}

// sortConditions by type: they stand in the order in which they first came up.
func sortConditions(object map[string]any) {
	conditions := conditionsOf(object)
	slices.SortFunc(conditions, func(a, b any) int {
		return cmp.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
	})
}

// relateGenerations says of every observedGeneration only whether it is the current one.
func relateGenerations(object *unstructured.Unstructured) {
	relate := func(fields map[string]any) {
		if observed, ok := fields["observedGeneration"].(int64); ok {
			fields["observedGeneration"] = fmt.Sprintf("current: %t", observed == object.GetGeneration())
		}
	}
	if status, ok := object.Object["status"].(map[string]any); ok {
		relate(status)
	}
	for _, condition := range conditionsOf(object.Object) {
		relate(condition.(map[string]any))
	}
}

func conditionsOf(object map[string]any) []any {
	status, _ := object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	return conditions
}
