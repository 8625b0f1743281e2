// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// inNamespace is the namespace that the subject is in, or that it is; "" where it is in none.
func (s *subject) inNamespace() string {
	object := unstructured.Unstructured{Object: s.Object}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return object.GetName()
	}
	return object.GetNamespace()
}

// custom is the subject if its kind is of an API group; nil if not.
func (s *subject) custom() *phase.Custom {
	object := unstructured.Unstructured{Object: s.Object}
	kind := object.GroupVersionKind()
	if kind.Group == "" || kind.Kind == "" {
		return nil
	}
	return &phase.Custom{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// checkNamespaces returns which phase makes a Pod that would be in no namespace; nothing if there is none. A namespace that is a template
// is known when the phase begins.
func checkNamespaces(i int, action *snapshotAction) (key phaseKey, message string) {
	if action.Subject.inNamespace() != "" {
		return phaseKey{}, ""
	}
	lacks := func(p *v1alpha1.BlueprintPhase) bool {
		args, err := objectOf(p.Args)
		return err == nil && phase.TraitsOf(p.Func).LeavesBehind && (args["namespace"] == nil || args["namespace"] == "")
	}
	for p := range action.Blueprint.Phases {
		if lacks(&action.Blueprint.Phases[p]) {
			return phaseKey{i, p}, phase.NoNamespace
		}
	}
	if deferred := action.Blueprint.DeferPhase; deferred != nil && lacks(deferred) {
		return phaseKey{i, phase.Deferred}, phase.NoNamespace
	}
	return phaseKey{}, ""
}
