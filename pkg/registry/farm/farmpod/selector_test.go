// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestSelectorsOfNamesAreTranslated(t *testing.T) {
	for selector, want := range map[string]string{
		"":                             "",
		"metadata.name=farm-dolly":     "metadata.name=dolly",
		"metadata.name!=farm-dolly":    "metadata.name!=dolly",
		"metadata.name=dolly":          "metadata.name=" + noPod,
		"metadata.name=farm-":          "metadata.name=" + noPod,
		"metadata.name=":               "metadata.name=" + noPod,
		"metadata.name!=dolly":         "",
		"metadata.name=farm-farm-x":    "metadata.name=farm-x",
		"metadata.namespace=farm-barn": "metadata.namespace=farm-barn",
		"spec.nodeName=farm-node":      "spec.nodeName=farm-node",
		"spec.nodeName=":               "spec.nodeName=",
		"status.phase!=Running":        "status.phase!=Running",
		`spec.nodeName=a\,b`:           `spec.nodeName=a\,b`,
		"status.phase=Failed,metadata.name!=dolly,metadata.name=farm-x": "metadata.name=x,status.phase=Failed",
	} {
		if got := podFields(fields.ParseSelectorOrDie(selector)).String(); got != want {
			t.Errorf("%q becomes %q, want %q", selector, got, want)
		}
	}
}

func TestOtherFieldsCannotBeSelectedBy(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddFieldLabels(scheme); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersion(farm.GroupVersion).WithKind("FarmPod")
	for _, field := range selectable {
		if label, value, err := scheme.ConvertFieldLabel(kind, field, "farm-x"); err != nil || label != field || value != "farm-x" {
			t.Errorf("%s became %s=%s: %v", field, label, value, err)
		}
	}
	if _, _, err := scheme.ConvertFieldLabel(kind, "status.podIP", "10.0.0.1"); err == nil || !strings.Contains(err.Error(), "spec.nodeName, status.phase") {
		t.Errorf("error is %v", err)
	}
}
