// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"maps"
	"strings"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// namedInputs are the references of what templates of an action get besides the snapshot.
type namedInputs struct {
	// action are those that the action names.
	action  namedObjects
	profile *v1alpha1.ObjectReference
	// credential: the Profile is needed with the Secrets of its credential.
	credential bool
	// phases are those that the phases name which have begun, by the index of the phase. Of optional ones, those are read that exist.
	phases, optional map[int]namedObjects
}

// namedObjects are references of Secrets and ConfigMaps, by the names that templates use.
type namedObjects struct {
	secrets, configMaps map[string]v1alpha1.ObjectReference
}

func (n namedObjects) none() bool { return len(n.secrets)+len(n.configMaps) == 0 }

// objectsOf returns the references of a phase. Templates do not get objects of other kinds than Secrets and ConfigMaps.
func objectsOf(p *v1alpha1.BlueprintPhase) namedObjects {
	named := namedObjects{secrets: map[string]v1alpha1.ObjectReference{}, configMaps: map[string]v1alpha1.ObjectReference{}}
	for name, reference := range p.Objects {
		switch strings.ToLower(reference.Kind) {
		case "secret":
			named.secrets[name] = reference
		case "configmap":
			named.configMaps[name] = reference
		}
	}
	return named
}

// objectsOfSpec returns the references of an action.
func objectsOfSpec(spec *v1alpha1.ActionSpec) namedObjects {
	return namedObjects{secrets: spec.Secrets, configMaps: spec.ConfigMaps}
}

// inputsNamed returns all references of an action, and of its phases that have begun according to the status, which is nil if none has.
func inputsNamed(action *snapshotAction, status *v1alpha1.ActionStatus) namedInputs {
	named := namedInputs{action: objectsOfSpec(&action.Spec), profile: action.Spec.Profile, credential: true, phases: map[int]namedObjects{}}
	if status == nil {
		return named
	}
	add := func(index int, called *v1alpha1.BlueprintPhase, of *v1alpha1.Phase) {
		if called == nil || of.State == "" || of.State == v1alpha1.StatePending {
			return
		}
		if objects := objectsOf(called); !objects.none() {
			named.phases[index] = objects
		}
	}
	for i := range min(len(status.Phases), len(action.Blueprint.Phases)) {
		add(i, &action.Blueprint.Phases[i], &status.Phases[i])
	}
	add(phase.Deferred, action.Blueprint.DeferPhase, &status.DeferPhase)
	return named
}

// none reports whether templates get nothing besides the snapshot.
func (n namedInputs) none() bool { return n.action.none() && n.profile == nil && len(n.phases) == 0 }

// mentionedBy returns the references of what templates of the action mention. Only these are read: what has been deleted since the run started, or cannot be
// read any more, fails no phase that does not use it. A template that uses a phase as a whole, such as for its output, gets those objects of it that exist.
func (n namedInputs) mentionedBy(m *blueprint.Mentions, action *snapshotAction) namedInputs {
	mentioned := namedInputs{action: n.action.mentionedBy(m), phases: map[int]namedObjects{}, optional: map[int]namedObjects{}}
	if m.Has("Profile") {
		mentioned.profile, mentioned.credential = n.profile, m.Has("Profile", "Credential")
	}
	for index, objects := range n.phases {
		path := []string{"DeferPhase"}
		if index != phase.Deferred {
			path = []string{"Phases", action.Blueprint.Phases[index].Name}
		}
		mentioned.phases[index] = objects.mentionedBy(m.Within(path...))
		mentioned.optional[index] = objects.mentionedBy(m, path...).without(mentioned.phases[index])
	}
	return mentioned
}

func (n namedObjects) mentionedBy(m *blueprint.Mentions, path ...string) namedObjects {
	pick := func(of map[string]v1alpha1.ObjectReference, field string) map[string]v1alpha1.ObjectReference {
		picked := maps.Clone(of)
		maps.DeleteFunc(picked, func(name string, _ v1alpha1.ObjectReference) bool { return !m.Has(append(path, field, name)...) })
		return picked
	}
	return namedObjects{secrets: pick(n.secrets, "Secrets"), configMaps: pick(n.configMaps, "ConfigMaps")}
}

func (n namedObjects) without(others namedObjects) namedObjects {
	for name := range others.secrets {
		delete(n.secrets, name)
	}
	for name := range others.configMaps {
		delete(n.configMaps, name)
	}
	return n
}

// addOutputMentions adds what the output artifacts of an action mention.
func addOutputMentions(m *blueprint.Mentions, b *blueprint.Budget, action *v1alpha1.BlueprintAction) error {
	for _, artifact := range action.OutputArtifacts {
		if err := m.AddTexts(b, artifact.KeyValue); err != nil {
			return err
		}
		if err := m.AddTexts(b, map[string]string{"kopiaSnapshot": artifact.KopiaSnapshot}); err != nil {
			return err
		}
	}
	return nil
}

// addMentions adds what the arguments of a phase mention.
func addMentions(m *blueprint.Mentions, b *blueprint.Budget, called *v1alpha1.BlueprintPhase) error {
	function, err := blueprint.Lookup(called.Func)
	if err != nil {
		return err
	}
	args, err := objectOf(called.Args)
	if err != nil {
		return err
	}
	return m.AddArgs(b, function, args)
}
