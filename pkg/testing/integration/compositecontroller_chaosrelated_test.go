// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// chaosLabel is the label that the hook desires of targets, and chaosGroup that of related objects.
	chaosLabel, chaosGroup = "chaos.test/value", "chaos.test/group"
)

// serve creates the CompositeController and the DecoratorController.
func (w *chaosWorld) serve() {
	w.Helper()
	w.grantEngine(rbacv1.PolicyRule{APIGroups: []string{"test.example.com"}, Resources: []string{"widgets", "widgets/status"}, Verbs: []string{"patch"}})
	w.definition("Part", partsOf(w.engineEnv).Resource, "{}")
	w.giveRight()
	w.awaitParts(true)
	for kind, spec := range w.specs() {
		o := object(w, "{apiVersion: metacontroller.k8s.io/v1alpha1, metadata: {name: %s, labels: {%s: %s}}}", w.name, engineTest, w.servedBy)
		o.SetKind(strings.TrimSuffix(kind, ".metacontroller.k8s.io/v1alpha1"))
		o.Object["spec"] = spec
		if _, err := w.at(kind).Create(w.Context(), o, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

// specs returns the specs of the CompositeController and of the DecoratorController, by kind.
func (w *chaosWorld) specs() map[string]tree {
	w.Helper()
	hooks := "{"
	for _, hook := range []string{"sync", "finalize", "customize"} {
		hooks += fmt.Sprintf(`%[1]s: {webhook: {url: "http://%[2]s/%[1]s", timeout: 2s}}, `, hook, w.hook.address)
	}
	hooks += "}"
	parents := fmt.Sprintf("apiVersion: test.example.com/v1, resource: widgets, labelSelector: {matchLabels: {%s: %s}}", testLabel, w.namespace)
	return map[string]tree{
		composite: object(w, `
generateSelector: true
parentResource: {%s}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: %s
`, parents, hooks).Object,
		decorator: object(w, `
resources: [{%s}]
attachments: [{apiVersion: %s, resource: parts, updateStrategy: {method: InPlace}}]
hooks: %s
`, parents, w.hook.parts, hooks).Object,
	}
}

// chaosObject is a related object: its group, and its value.
type chaosObject struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Data struct {
		Value string `json:"value"`
	} `json:"data"`
}

// changeRelated creates, edits or deletes a related object.
func (w *chaosWorld) changeRelated(name string) {
	w.Helper()
	before, exists := w.related[name]
	if exists && w.random.IntN(4) == 0 {
		w.remove("ConfigMap", name)
		delete(w.related, name)
		w.done["delete a related object"]++
		return
	}
	now := before
	now.Data.Value = fmt.Sprintf("w%d", w.random.IntN(100))
	if !exists || w.random.IntN(2) == 0 {
		now.Metadata.Labels = map[string]string{chaosGroup: fmt.Sprintf("g%02d", w.random.IntN(chaosGroups))}
	}
	w.related[name] = now
	content := fmt.Sprintf("metadata: {name: %s, labels: {%s: %s}}, data: {value: %s}", name, chaosGroup, now.Metadata.Labels[chaosGroup], now.Data.Value)
	if exists {
		w.change("ConfigMap", name, "{"+content+"}")
		w.done["edit a related object"]++
		return
	}
	if _, err := w.at("ConfigMap").Create(w.Context(), object(w, "{apiVersion: v1, kind: ConfigMap, %s}", content), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.done["create a related object"]++
}

// rule returns the rule for the related objects of a parent.
func (s chaosSpec) rule() tree {
	rule := tree{"apiVersion": "v1", "resource": "configmaps"}
	if s.Group != "" {
		rule["labelSelector"] = tree{"matchLabels": tree{chaosGroup: s.Group}}
	} else {
		rule["names"] = list{s.Related}
	}
	return rule
}

// valueFor returns the value that the children of a parent should have.
func (w *chaosWorld) valueFor(spec *chaosSpec) string {
	selected := map[string]chaosObject{}
	for name, o := range w.related {
		if spec.Group != "" && o.Metadata.Labels[chaosGroup] == spec.Group || spec.Group == "" && name == spec.Related {
			selected[name] = o
		}
	}
	return spec.valueWith(selected)
}

// valueWith returns the value of the spec, with those of the related objects after it.
func (s chaosSpec) valueWith(related map[string]chaosObject) string {
	values := []string{s.Value}
	for _, name := range slices.Sorted(maps.Keys(related)) {
		values = append(values, related[name].Data.Value)
	}
	return strings.Join(values, "-")
}
