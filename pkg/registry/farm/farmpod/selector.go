// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

// selectable are the fields that FarmPods can be selected by. They have the same names and meaning for Pods, but for the prefix.
var selectable = []string{metav1.ObjectNameField, "metadata.namespace", "spec.nodeName", "status.phase"}

// noPod is a name that no Pod can have.
const noPod = "No-Pod-Has-Capitals"

// AddFieldLabels adds to a scheme the fields by which FarmPods can be selected.
func AddFieldLabels(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(schema.GroupVersion(farm.GroupVersion).WithKind("FarmPod"), func(label, value string) (string, string, error) {
		for _, field := range selectable {
			if label == field {
				return label, value, nil
			}
		}
		return "", "", fmt.Errorf("FarmPods cannot be selected by the field %q; they can by %s", label, strings.Join(selectable, ", "))
	})
}

// podOptions are the options that select the Pods of the wanted FarmPods. A selector of names that no FarmPod has
// becomes one that selects no Pod: the answer is empty, and as exact in all else as any other.
func podOptions(options *internalversion.ListOptions) (*metav1.ListOptions, error) {
	converted := &metav1.ListOptions{}
	if options == nil {
		return converted, nil
	}
	if err := internalversion.Convert_internalversion_ListOptions_To_v1_ListOptions(options, converted, nil); err != nil {
		return nil, fmt.Errorf("translating the options of a request for farmpods: %w", err)
	}
	if options.FieldSelector != nil {
		converted.FieldSelector = podFields(options.FieldSelector).String()
	}
	return converted, nil
}

// podFields translates names.
func podFields(selector fields.Selector) fields.Selector {
	var terms []fields.Selector
	for _, requirement := range selector.Requirements() {
		value, excluded := requirement.Value, requirement.Operator == selection.NotEquals
		if requirement.Field == metav1.ObjectNameField {
			name, ok := podName(value)
			switch {
			case ok:
				value = name
			case excluded:
				continue // all FarmPods have other names
			default:
				value = noPod
			}
		}
		if excluded {
			terms = append(terms, fields.OneTermNotEqualSelector(requirement.Field, value))
		} else {
			terms = append(terms, fields.OneTermEqualSelector(requirement.Field, value))
		}
	}
	return fields.AndSelectors(terms...)
}
