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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Texts that differ between runs and have no meaning.
var (
	uidPattern         = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern        = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	addressPattern     = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	noncePattern       = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	appliedHashPattern = regexp.MustCompile(`(applied-hash": ")[0-9a-f]{32}`)
	tokenVolumePattern = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
)

// state returns the objects of the run as text, without what always differs between runs.
func (u *User) state(ctx context.Context, scenario *Scenario) (string, error) {
	var objects []string
	for _, resource := range scenario.Resources {
		list, err := u.List(ctx, resource)
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetManagedFields(nil)
			object.SetResourceVersion("")
			relateGenerations(object)
			object.SetGeneration(0) // a reverted change increases the generation, too
			sortConditions(object.Object)
			if scenario.Normalize != nil {
				scenario.Normalize(object)
			}
			encoded, err := json.MarshalIndent(object.Object, "", " ")
			if err != nil {
				return "", err
			}
			objects = append(objects, u.withoutAccidents(fmt.Sprintf("%s %s\n%s\n", resource.Resource, object.GetName(), encoded)))
		}
	}
	slices.Sort(objects) // by name, or by content if Normalize removes names that are different in every run
	return strings.Join(objects, ""), nil
}

// withoutAccidents replaces names, UIDs, times, addresses, nonces, hashes and tokens by placeholders.
func (u *User) withoutAccidents(text string) string {
	text = strings.ReplaceAll(text, u.RunName(), "<run>")
	text = strings.ReplaceAll(text, u.Namespace, "<namespace>")
	text = uidPattern.ReplaceAllString(text, "<uid>")
	text = timePattern.ReplaceAllString(text, "<time>")
	text = addressPattern.ReplaceAllString(text, "<address>")
	text = noncePattern.ReplaceAllString(text, "<nonce>")
	text = appliedHashPattern.ReplaceAllString(text, "$1<hash>") // of names and UIDs, too
	return tokenVolumePattern.ReplaceAllString(text, "<token>")
}

// sortConditions sorts the conditions by type. A status has them in the order in which they were first set.
func sortConditions(object map[string]any) {
	conditions := conditionsOf(object)
	slices.SortFunc(conditions, func(a, b any) int {
		return cmp.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
	})
}

// relateGenerations replaces every observedGeneration by whether it is the current one.
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
