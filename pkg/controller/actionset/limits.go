// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// What a run reads before it starts takes requests and memory, which other runs have to wait for. The CustomResourceDefinitions have the first two
// limits, too; what was stored before, or with those of Kanister, may be above them.
const (
	// maxActions is the maximum number of actions of an ActionSet.
	maxActions = 1000
	// maxNames is the maximum number of Secrets, of ConfigMaps, and of objects of a phase that an action names.
	maxNames = 100
	// maxReferences is the maximum number of different Secrets and ConfigMaps that all actions of an ActionSet and their phases name.
	maxReferences = 1000
	// fewReads is how many objects a run may read without a turn: when it starts, or what its actions and phases name. Most of it is read again for each phase.
	fewReads = 100
)

// checkNumbers returns an error if an ActionSet has too many actions, or names too many Secrets and ConfigMaps.
func checkNumbers(spec *v1alpha1.ActionSetSpec, namespace string) error {
	if n := len(spec.Actions); n > maxActions {
		return fmt.Errorf("spec.actions has %d actions, and may have %d: use several ActionSets", n, maxActions)
	}
	for i := range spec.Actions {
		action, field := &spec.Actions[i], fmt.Sprintf("spec.actions[%d]", i)
		for _, named := range []struct {
			field string
			n     int
		}{{field + ".configMaps", len(action.ConfigMaps)}, {field + ".secrets", len(action.Secrets)}} {
			if named.n > maxNames {
				return fmt.Errorf("%s has %d references, and may have %d: put what they hold into fewer objects", named.field, named.n, maxNames)
			}
		}
	}
	return referencesOfSpec(spec, namespace).check()
}

// checkPhaseNumbers is checkNumbers for a run, with the objects of its phases.
func checkPhaseNumbers(r *snapshot, namespace string) error {
	return referencesOfRun(r, namespace).check()
}

func referencesOfSpec(spec *v1alpha1.ActionSetSpec, namespace string) *references {
	different := &references{}
	for i := range spec.Actions {
		different.addAction(namespace, &spec.Actions[i])
	}
	return different
}

func referencesOfRun(r *snapshot, namespace string) *references {
	different := &references{}
	for i := range r.Actions {
		action := &r.Actions[i]
		different.addAction(namespace, &action.Spec)
		for p := range action.Blueprint.Phases {
			different.addPhase(namespace, &action.Blueprint.Phases[p])
		}
		if action.Blueprint.DeferPhase != nil {
			different.addPhase(namespace, action.Blueprint.DeferPhase)
		}
	}
	return different
}

// startReads returns how many objects the start of a run reads: the subjects, and what its actions name.
func startReads(spec *v1alpha1.ActionSetSpec, namespace string) int {
	subjects := sets.New[v1alpha1.ObjectReference]()
	for i := range spec.Actions {
		subjects.Insert(spec.Actions[i].Object)
	}
	return subjects.Len() + referencesOfSpec(spec, namespace).reads()
}

// references are the Secrets and ConfigMaps that are named, and the Profiles, each once.
type references struct{ secretsAndConfigMaps, profiles sets.Set[readKey] }

// reads returns how many objects they are, with the Secret that a Profile names.
func (r *references) reads() int { return r.secretsAndConfigMaps.Len() + 2*r.profiles.Len() }

func (r *references) addAction(namespace string, action *v1alpha1.ActionSpec) {
	r.add(namespace, objectsOfSpec(action))
	if named := action.Profile; named != nil {
		if r.profiles == nil {
			r.profiles = sets.New[readKey]()
		}
		r.profiles.Insert(readKey{"Profile", cmp.Or(named.Namespace, namespace), named.Name})
	}
}

func (r *references) addPhase(namespace string, p *v1alpha1.BlueprintPhase) {
	r.add(namespace, objectsOf(p))
}

// add adds what is named. Without a namespace it is in that of the ActionSet.
func (r *references) add(namespace string, named namedObjects) {
	if r.secretsAndConfigMaps == nil {
		r.secretsAndConfigMaps = sets.New[readKey]()
	}
	for _, reference := range named.secrets {
		r.secretsAndConfigMaps.Insert(readKey{"Secret", cmp.Or(reference.Namespace, namespace), reference.Name})
	}
	for _, reference := range named.configMaps {
		r.secretsAndConfigMaps.Insert(readKey{"ConfigMap", cmp.Or(reference.Namespace, namespace), reference.Name})
	}
}

func (r *references) check() error {
	if n := r.secretsAndConfigMaps.Len(); n > maxReferences {
		return fmt.Errorf("the actions and their phases name %d different Secrets and ConfigMaps, and those of an ActionSet may name %d: use several ActionSets",
			n, maxReferences)
	}
	return nil
}
