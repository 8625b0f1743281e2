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
)

// checkNumbers returns an error if an ActionSet has too many actions, or names too many Secrets and ConfigMaps.
func checkNumbers(spec *v1alpha1.ActionSetSpec, namespace string) error {
	if n := len(spec.Actions); n > maxActions {
		return fmt.Errorf("spec.actions has %d actions, and may have %d: use several ActionSets", n, maxActions)
	}
	different := references{}
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
		different.add(namespace, action.Secrets, action.ConfigMaps)
	}
	return different.check()
}

// checkPhaseNumbers is checkNumbers for a run, with the objects of its phases.
func checkPhaseNumbers(r *snapshot, namespace string) error {
	different := references{}
	for i := range r.Actions {
		action := &r.Actions[i]
		different.add(namespace, action.Spec.Secrets, action.Spec.ConfigMaps)
		for p := range action.Blueprint.Phases {
			different.addPhase(namespace, &action.Blueprint.Phases[p])
		}
		if action.Blueprint.DeferPhase != nil {
			different.addPhase(namespace, action.Blueprint.DeferPhase)
		}
	}
	return different.check()
}

// references are the Secrets and ConfigMaps that are named, each once.
type references struct{ sets.Set[readKey] }

func (r *references) addPhase(namespace string, p *v1alpha1.BlueprintPhase) {
	secrets, configMaps := referencesOf(p)
	r.add(namespace, secrets, configMaps)
}

// add adds what is named. Without a namespace it is in that of the ActionSet.
func (r *references) add(namespace string, secrets, configMaps map[string]v1alpha1.ObjectReference) {
	if r.Set == nil {
		r.Set = sets.New[readKey]()
	}
	for _, reference := range secrets {
		r.Insert(readKey{"Secret", cmp.Or(reference.Namespace, namespace), reference.Name})
	}
	for _, reference := range configMaps {
		r.Insert(readKey{"ConfigMap", cmp.Or(reference.Namespace, namespace), reference.Name})
	}
}

func (r *references) check() error {
	if n := r.Len(); n > maxReferences {
		return fmt.Errorf("the actions and their phases name %d different Secrets and ConfigMaps, and those of an ActionSet may name %d: use several ActionSets",
			n, maxReferences)
	}
	return nil
}
