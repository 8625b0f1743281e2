// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// inputs are the data of templates of an action that are not in the snapshot. They are read each time, and kept nowhere.
type inputs struct {
	// action are the objects that the action names.
	action  inputObjects
	profile *blueprint.Profile
	// phases are those of the phases that have begun, and of the one that begins, by the index of the phase.
	phases map[int]inputObjects
	// size of all Secrets and ConfigMaps in bytes.
	size int
}

// inputObjects are objects by the names that templates use.
type inputObjects struct {
	secrets    map[string]corev1.Secret
	configMaps map[string]corev1.ConfigMap
}

// paramsOf returns the data of the templates of an action when a phase begins, or after all phases if begins is nil. The status is nil if
// nothing of the action has begun.
func paramsOf(action *snapshotAction, status *v1alpha1.ActionStatus, f inputs, begins *int) (blueprint.Params, error) {
	override, err := objectOf(action.Spec.PodOverride)
	if err != nil {
		return blueprint.Params{}, fmt.Errorf("reading the podOverride: %w", err)
	}
	params := blueprint.Params{
		StatefulSet: action.Subject.StatefulSet, Deployment: action.Subject.Deployment,
		PVC: action.Subject.PVC, Namespace: action.Subject.Namespace, Object: action.Subject.Object,
		ConfigMaps: f.action.configMaps, Secrets: f.action.secrets, Profile: f.profile,
		Options: action.Spec.Options, Time: action.Time, Phases: map[string]blueprint.Phase{},
		PodOverride: override, PodAnnotations: action.Spec.PodAnnotations, PodLabels: action.Spec.PodLabels,
	}
	if len(action.Spec.Artifacts) > 0 {
		params.ArtifactsIn = make(map[string]blueprint.Artifact, len(action.Spec.Artifacts))
	}
	for name, artifact := range action.Spec.Artifacts {
		params.ArtifactsIn[name] = blueprint.Artifact{KeyValue: artifact.KeyValue, KopiaSnapshot: artifact.KopiaSnapshot}
	}
	if status == nil {
		return params, nil
	}
	seen := func(p *v1alpha1.Phase, index int) (blueprint.Phase, bool, error) {
		if p.State == "" || p.State == v1alpha1.StatePending && (begins == nil || *begins != index) {
			return blueprint.Phase{}, false, nil
		}
		output, err := objectOf(p.Output)
		if err != nil {
			return blueprint.Phase{}, false, fmt.Errorf("reading the output of phase %s: %w", p.Name, err)
		}
		objects := f.phases[index]
		return blueprint.Phase{Secrets: objects.secrets, ConfigMaps: objects.configMaps, Output: output}, true, nil
	}
	for i := range status.Phases {
		p, begun, err := seen(&status.Phases[i], i)
		if err != nil {
			return params, err
		}
		if begun {
			params.Phases[status.Phases[i].Name] = p
		}
	}
	params.DeferPhase, _, err = seen(&status.DeferPhase, phase.Deferred)
	return params, err
}

// renderObjects renders the references of the objects of all phases, by the index of the phase, before anything has begun.
func renderObjects(b *blueprint.Budget, action *snapshotAction, f inputs) (map[int]map[string]v1alpha1.ObjectReference, error) {
	params, err := paramsOf(action, nil, f, nil)
	if err != nil {
		return nil, err
	}
	renderer, err := blueprint.NewRenderer(b, params)
	if err != nil {
		return nil, err
	}
	rendered := map[int]map[string]v1alpha1.ObjectReference{}
	render := func(index int, p *v1alpha1.BlueprintPhase) error {
		references := make(map[string]v1alpha1.ObjectReference, len(p.Objects))
		for _, name := range slices.Sorted(maps.Keys(p.Objects)) {
			r := p.Objects[name]
			texts, err := renderer.Texts(p.Name, "objects."+name, map[string]string{
				"apiVersion": r.APIVersion, "group": r.Group, "resource": r.Resource, "kind": r.Kind, "name": r.Name, "namespace": r.Namespace,
			})
			if err != nil {
				return explainRendering(err, action)
			}
			references[name] = v1alpha1.ObjectReference{
				APIVersion: texts["apiVersion"], Group: texts["group"], Resource: texts["resource"],
				Kind: texts["kind"], Name: texts["name"], Namespace: texts["namespace"],
			}
		}
		if len(references) > 0 {
			rendered[index] = references
		}
		return checkPhaseObjects(p, references)
	}
	for i := range action.Blueprint.Phases {
		if err := render(i, &action.Blueprint.Phases[i]); err != nil {
			return nil, err
		}
	}
	if deferred := action.Blueprint.DeferPhase; deferred != nil {
		return rendered, render(phase.Deferred, deferred)
	}
	return rendered, nil
}

// resolveObjects replaces the templates of the objects of the phases by the rendered references.
func (a *snapshotAction) resolveObjects(rendered map[int]map[string]v1alpha1.ObjectReference) {
	for i := range a.Blueprint.Phases {
		a.Blueprint.Phases[i].Objects = rendered[i]
	}
	if a.Blueprint.DeferPhase != nil {
		a.Blueprint.DeferPhase.Objects = rendered[phase.Deferred]
	}
}

// renderArgs renders the arguments of a phase that begins.
func renderArgs(b *blueprint.Budget, r *snapshot, key phaseKey, status *v1alpha1.ActionStatus, f inputs) (map[string]any, error) {
	called := r.phaseOf(key)
	function, err := blueprint.Lookup(called.Func)
	if err != nil {
		return nil, err
	}
	args, err := objectOf(called.Args)
	if err != nil {
		return nil, fmt.Errorf("reading the args of phase %s: %w", called.Name, err)
	}
	params, err := paramsOf(&r.Actions[key.action], status, f, &key.phase)
	if err != nil {
		return nil, err
	}
	renderer, err := blueprint.NewRenderer(b, params)
	if err != nil {
		return nil, err
	}
	rendered, err := renderer.Args(called.Name, function, args)
	return rendered, explainRendering(err, &r.Actions[key.action])
}

// renderOutput renders the output artifacts of an action that has succeeded.
func renderOutput(b *blueprint.Budget, r *snapshot, i int, status *v1alpha1.ActionStatus, f inputs) (map[string]v1alpha1.Artifact, error) {
	params, err := paramsOf(&r.Actions[i], status, f, nil)
	if err != nil {
		return nil, err
	}
	renderer, err := blueprint.NewRenderer(b, params)
	if err != nil {
		return nil, err
	}
	templates := r.Actions[i].Blueprint.OutputArtifacts
	artifacts := make(map[string]v1alpha1.Artifact, len(templates))
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		values, err := renderer.Texts("", "outputArtifacts."+name+".keyValue", templates[name].KeyValue)
		if err != nil {
			return nil, explainRendering(err, &r.Actions[i])
		}
		snapshot, err := renderer.Texts("", "outputArtifacts."+name, map[string]string{"kopiaSnapshot": templates[name].KopiaSnapshot})
		if err != nil {
			return nil, explainRendering(err, &r.Actions[i])
		}
		if len(values) == 0 {
			values = nil
		}
		artifacts[name] = v1alpha1.Artifact{KeyValue: values, KopiaSnapshot: snapshot["kopiaSnapshot"]}
	}
	return artifacts, nil
}
