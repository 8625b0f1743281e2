// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)

// newSet is the ActionSet s, whose actions are those of the Blueprint bp with these names.
func newSet(actions ...string) *v1alpha1.ActionSet {
	set := &v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", UID: "uid-s", Generation: 1, ResourceVersion: "1"},
		Spec:       &v1alpha1.ActionSetSpec{},
	}
	for _, name := range actions {
		set.Spec.Actions = append(set.Spec.Actions, v1alpha1.ActionSpec{
			Name: name, Blueprint: "bp", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: "ns"},
		})
	}
	return set
}

// newBlueprint is the Blueprint bp.
func newBlueprint(actions map[string]v1alpha1.BlueprintAction) *v1alpha1.Blueprint {
	return &v1alpha1.Blueprint{ObjectMeta: metav1.ObjectMeta{Name: "bp", Namespace: "ns"}, Actions: actions}
}

// validArgs by function.
var validArgs = map[string]string{
	"KubeOps":  `{"operation":"create"}`,
	"KubeTask": `{"namespace":"ns","image":"i","command":["c"]}`,
	"KubeExec": `{"namespace":"n","pod":"p","command":["c"]}`,
}

func phaseOf(function, name string) v1alpha1.BlueprintPhase {
	return v1alpha1.BlueprintPhase{Func: function, Name: name, Args: rawArgs(validArgs[function])}
}

func rawArgs(text string) *runtime.RawExtension {
	if text == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: []byte(text)}
}

// actionOf has KubeOps phases with these names.
func actionOf(names ...string) v1alpha1.BlueprintAction {
	var action v1alpha1.BlueprintAction
	for _, name := range names {
		action.Phases = append(action.Phases, phaseOf("KubeOps", name))
	}
	return action
}

func withDefer(action v1alpha1.BlueprintAction, function, name string) v1alpha1.BlueprintAction {
	deferred := phaseOf(function, name)
	action.DeferPhase = &deferred
	return action
}

// observe is a first look at an ActionSet.
func observe(set *v1alpha1.ActionSet, blueprints ...*v1alpha1.Blueprint) observed {
	o := observed{set: set, blueprints: map[string]*v1alpha1.Blueprint{}, executor: "me", now: noon}
	for _, blueprint := range blueprints {
		o.blueprints[blueprint.Name] = blueprint
	}
	return o
}

// answered gives the subjects, and prepares all phases.
func answered(o observed) observed {
	o.prepared, o.polled = map[phaseKey]preparation{}, map[phaseKey]phase.Observation{}
	if o.set.Spec != nil {
		o.subjects = make([]foundSubject, len(o.set.Spec.Actions))
		for i := range o.set.Spec.Actions {
			for p := phase.Deferred; p < 12; p++ {
				o.prepared[phaseKey{i, p}] = preparation{}
			}
		}
	}
	return o
}

// withSnapshot returns what is observed after the first plan of a start, which creates the snapshot.
func withSnapshot(t testing.TB, o observed) observed {
	t.Helper()
	steps := decide(o).Steps
	made, ok := steps[len(steps)-1].(createSnapshot)
	if !ok {
		t.Fatalf("no snapshot is created: %q", texts(decide(o)))
	}
	o.snapshot = made.snapshot
	return o
}

// texts are the steps of a plan, or what it asks.
func texts(p plan) (lines []string) {
	for _, a := range p.Asks {
		lines = append(lines, "? "+a.String())
	}
	for _, s := range p.Steps {
		text := s.String()
		if event, ok := s.(recordEvent); ok {
			text += fmt.Sprintf(" %q", event.message)
		}
		lines = append(lines, text)
	}
	return lines
}

// statusOf is the status that a plan writes; nil if it writes none.
func statusOf(p plan) *v1alpha1.ActionSetStatus {
	for _, s := range p.Steps {
		if write, ok := s.(writeStatus); ok {
			return &write.status
		}
	}
	return nil
}

// stored is a status as the API server gives it back.
func stored(t testing.TB, status *v1alpha1.ActionSetStatus) *v1alpha1.ActionSetStatus {
	t.Helper()
	content, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var read v1alpha1.ActionSetStatus
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	return &read
}
