// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// checkReferences returns an error that names the field if an ActionSet has a reference that can never be read, such as the name ../x. It is called
// before anything is read. A missing Blueprint name is refused later, with an event of its own.
func checkReferences(spec *v1alpha1.ActionSetSpec) error {
	for i := range spec.Actions {
		action, field := &spec.Actions[i], fmt.Sprintf("spec.actions[%d]", i)
		if action.Blueprint != "" {
			if err := phase.CheckName(field+".blueprint", action.Blueprint); err != nil {
				return err
			}
		}
		if err := checkSubject(field+".object", &action.Object); err != nil {
			return err
		}
		for _, named := range []struct {
			field      string
			references map[string]v1alpha1.ObjectReference
		}{{"configMaps", action.ConfigMaps}, {"secrets", action.Secrets}} {
			for _, name := range slices.Sorted(maps.Keys(named.references)) {
				reference := named.references[name]
				if err := checkReference(fmt.Sprintf("%s.%s[%s]", field, named.field, name), &reference); err != nil {
					return err
				}
			}
		}
		if action.Profile != nil {
			if err := checkReference(field+".profile", action.Profile); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReference checks a reference to an object whose kind is known. Without a namespace the object is in that of the ActionSet.
func checkReference(field string, reference *v1alpha1.ObjectReference) error {
	if err := phase.CheckName(field+".name", reference.Name); err != nil {
		return err
	}
	return phase.CheckOptionalNamespace(field+".namespace", reference.Namespace)
}

// checkSubject is checkReference for a subject, which may be of any kind.
func checkSubject(field string, reference *v1alpha1.ObjectReference) error {
	if err := checkReference(field, reference); err != nil {
		return err
	}
	resource, _ := resourceOf(reference, "")
	return phase.CheckResource(field, resource.Group, resource.Version, resource.Resource)
}

// checkPhaseObjects returns an error if an object of a phase can never be read. Objects of other kinds than Secrets and ConfigMaps are not read.
func checkPhaseObjects(p *v1alpha1.BlueprintPhase, rendered map[string]v1alpha1.ObjectReference) error {
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		reference := rendered[name]
		if kind := strings.ToLower(reference.Kind); kind != "secret" && kind != "configmap" {
			continue
		}
		if err := checkReference(fmt.Sprintf("objects.%s of phase %s", name, p.Name), &reference); err != nil {
			return err
		}
	}
	return nil
}

// inNamespace returns the namespace of the subject, or its name if it is a Namespace; "" if the subject is cluster-scoped.
func (s *subject) inNamespace() string {
	object := unstructured.Unstructured{Object: s.Object}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return object.GetName()
	}
	return object.GetNamespace()
}

// custom returns the subject if its kind has an API group; nil if not.
func (s *subject) custom() *phase.Custom {
	object := unstructured.Unstructured{Object: s.Object}
	kind := object.GroupVersionKind()
	if kind.Group == "" || kind.Kind == "" {
		return nil
	}
	return &phase.Custom{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// checkNamespaces returns the phase that makes a Pod without a namespace, and the message of the failure; "" if there is none. A namespace that
// is a template is not known before the phase begins.
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
