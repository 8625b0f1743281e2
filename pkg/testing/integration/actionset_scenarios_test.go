// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// scenario is an ActionSet with the events and the status that users of Kanister expect.
type scenario struct {
	// blueprint has the actions of the Blueprint. If it is empty there is no Blueprint.
	blueprint string
	// actions are those of the ActionSet; goOnNamespace if there are none.
	actions []string
	// events in their short forms; see expand.
	events []string
	// end is the summary of the status at the end.
	end string
}

// failPhase returns a phase that fails when it runs, because its namespace does not exist.
func failPhase(phase, namespace string) string {
	return strings.ReplaceAll(createConfigMapPhase(phase, "$ME"), "namespace: $NS", "namespace: "+namespace)
}

// createPhase returns a phase that creates a ConfigMap, named after the scenario and the phase.
func createPhase(phase string) string { return createConfigMapPhase(phase, "$ME-"+phase) }

// goPhases returns an action go with these phases.
func goPhases(phases ...string) string {
	return "go:\n  phases:\n  - " + strings.Join(phases, "\n  - ") + "\n"
}

func withDefer(phase string) string { return "  deferPhase: " + phase + "\n" }

const onNamespace = ", object: {kind: Namespace, name: $NS, namespace: $NS}}"

var runScenarios = map[string]scenario{
	"one-phase": {
		blueprint: goPhases(createPhase("first")),
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"three-phases": {
		blueprint: goPhases(createPhase("first"), createPhase("second"), createPhase("third")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", "EP second", "SP third", "EP third", "UC"},
		end:       `complete first=complete second=complete third=complete; 100%`,
	},
	"effect-fails": {
		blueprint: goPhases(createPhase("first"), failPhase("second", "no-such-ns"), createPhase("third")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", `F Failed to execute phase: namespaces "no-such-ns" not found`},
		end:       `failed first=complete second=failed third=pending; 33%; namespaces "no-such-ns" not found`,
	},
	"already-there": {
		blueprint: goPhases(createConfigMapPhase("first", "$ME"), createConfigMapPhase("second", "$ME")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", `F Failed to execute phase: configmaps "already-there" already exists`},
		end:       `failed first=complete second=failed; 50%; configmaps "already-there" already exists`,
	},
	"defer-success": {
		blueprint: goPhases(createPhase("first"), createPhase("second")) + withDefer(createPhase("cleanup")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", "EP second", "SD cleanup", "ED cleanup", "UC"},
		end:       `complete first=complete second=complete defer cleanup=complete; 100%`,
	},
	"defer-core-fails": {
		blueprint: goPhases(failPhase("first", "no-such-ns"), createPhase("second")) + withDefer(createPhase("cleanup")),
		events:    []string{"SA go", "SP first", `F Failed to execute phase: namespaces "no-such-ns" not found`, "SD cleanup", "ED cleanup"},
		end:       `failed first=failed second=pending defer cleanup=complete; 0%; namespaces "no-such-ns" not found`,
	},
	"defer-fails": {
		blueprint: goPhases(createPhase("first")) + withDefer(failPhase("cleanup", "no-such-ns")),
		events:    []string{"SA go", "SP first", "EP first", "SD cleanup", `F Failed to execute defer phase: namespaces "no-such-ns" not found`},
		end:       `failed first=complete defer cleanup=failed; 100%; namespaces "no-such-ns" not found`,
	},
	"defer-both-fail": {
		blueprint: goPhases(failPhase("first", "no-such-ns-a")) + withDefer(failPhase("cleanup", "no-such-ns-b")),
		events: []string{
			"SA go", "SP first", `F Failed to execute phase: namespaces "no-such-ns-a" not found`,
			"SD cleanup", `F Failed to execute defer phase: namespaces "no-such-ns-b" not found`,
		},
		end: `failed first=failed defer cleanup=failed; 0%; namespaces "no-such-ns-b" not found`,
	},
	"artifacts": {
		blueprint: goPhases(createPhase("first")) + `
  outputArtifacts:
    art: {keyValue: {literal: plain, path: '/{{ .Options.dir }}/{{ .Phases.first.Output.name }}'}}
    snap: {kopiaSnapshot: '{{ .Options.dir | upper }}'}
`,
		actions: []string{"{name: go, blueprint: $ME, options: {dir: backups}" + onNamespace},
		events:  []string{"SA go", "SP first", "EP first", "UC"},
		end:     `complete first=complete; 100%`,
	},
	"artifacts-fail": {
		blueprint: goPhases(createPhase("first")) + "  outputArtifacts: {art: {keyValue: {path: '{{ .Phases.first.Output.nope }}'}}}\n",
		events:    []string{"SA go", "SP first", "EP first", `F Failed to render output artifacts Failed to render template: "nope" not found (argument outputArtifacts.art.keyValue.path, at {{ .Phases.first.Output.nope }})`},
		end:       `failed first=complete; 100%; Failed to render template: "nope" not found (argument outputArtifacts.art.keyValue.path, at {{ .Phases.first.Output.nope }})`,
	},
	"missing-key": {
		blueprint: goPhases(createConfigMapPhase("first", "{{ .Options.nope }}")),
		events:    []string{"SA go", "SP first", `F Failed to execute phase: Failed to render template: "nope" not found (argument spec of phase first, at {{ .Options.nope }})`},
		end:       `failed first=failed; 0%; Failed to render template: "nope" not found (argument spec of phase first, at {{ .Options.nope }})`,
	},
	"missing-phase-object": {
		blueprint: goPhases("{objects: {s: {kind: Secret, name: none, namespace: $NS}}, "+createPhase("first")[1:], createPhase("second")) + withDefer(createPhase("cleanup")),
		events:    []string{"SA go", "SP first", `F Failed to init phase params: secrets "none" not found`, "SD cleanup", "ED cleanup"},
		end:       `failed first=failed second=pending defer cleanup=complete; 0%; secrets "none" not found`,
	},
	"missing-defer-object": {
		blueprint: goPhases(createPhase("first")) + withDefer("{objects: {s: {kind: Secret, name: none, namespace: $NS}}, "+createPhase("cleanup")[1:]),
		events:    []string{"SA go", "SP first", "EP first", "SD cleanup", `F Failed to execute defer phase: secrets "none" not found`},
		end:       `failed first=complete defer cleanup=failed; 100%; secrets "none" not found`,
	},
	"zero-actions": {
		actions: []string{""},
		events:  []string{"UC"},
		end:     `complete; 100%`,
	},
	"no-phases": {
		blueprint: "go: {}\n",
		events:    []string{"SA go", "UC"},
		end:       `complete; 100%`,
	},
	"other-version": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, preferredVersion: v1.2.3-alpha" + onNamespace},
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"configmap-subject": {
		blueprint: goPhases(createConfigMapPhase("first", "{{ .Object.data.wanted }}")),
		actions:   []string{"{name: go, blueprint: $ME, object: {apiVersion: v1, resource: configmaps, name: subject, namespace: $NS}}"},
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"missing-inputs": { // a Blueprint may name what it does not use
		blueprint: goPhases(createPhase("first")) + "  inputArtifactNames: [a, b]\n  secretNames: [s]\n  configMapNames: [given]\n",
		actions:   []string{"{name: go, blueprint: $ME, artifacts: {a: {}}, configMaps: {given: {name: subject, namespace: $NS}}" + onNamespace},
		events: []string{
			"SA go", `W "MissingInput" Action go of blueprint missing-inputs names artifacts that the ActionSet does not give: b`,
			`W "MissingInput" Action go of blueprint missing-inputs names Secrets that the ActionSet does not give: s`, "SP first", "EP first", "UC",
		},
		end: `complete first=complete; 100%`,
	},
	"null-arg": {
		blueprint: goPhases("{func: KubeOps, name: first, args: {operation: create, namespace: $NS, objectReference: null, " +
			"spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: $ME}}'}}"),
		events: []string{"SA go", "SP first", "EP first", "UC"},
		end:    `complete first=complete; 100%`,
	},
}

func TestActionSetKanisterStatusAndEvents(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.createConfigMap("subject", map[string]string{"wanted": "made-for-the-subject"})
	e.playScenarios(runScenarios)

	want := map[string]v1alpha1.Artifact{"art": {KeyValue: map[string]string{"literal": "plain", "path": "/backups/artifacts-first"}}, "snap": {KopiaSnapshot: "BACKUPS"}}
	if diff := cmp.Diff(want, e.getSet("artifacts").Status.Actions[0].Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	templates := map[string]v1alpha1.Artifact{"art": {KeyValue: map[string]string{"path": "{{ .Phases.first.Output.nope }}"}}}
	if diff := cmp.Diff(templates, e.getSet("artifacts-fail").Status.Actions[0].Artifacts); diff != "" {
		t.Errorf("artifacts of a failed run (-want +got):\n%s", diff)
	}
	if e.configMap("made-for-the-subject") == nil {
		t.Error("a phase does not see its subject")
	}
	output := outputs(t, e.getSet("one-phase"), "first")
	of := map[string]any{"apiVersion": "v1", "group": "", "resource": "configmaps", "kind": "", "name": "one-phase-first", "namespace": e.namespace}
	if diff := cmp.Diff(of, output); diff != "" {
		t.Errorf("output of KubeOps (-want +got):\n%s", diff)
	}
	for _, name := range []string{"effect-fails-third", "defer-core-fails-second", "missing-phase-object-first", "missing-phase-object-second"} {
		if e.configMap(name) != nil {
			t.Errorf("ConfigMap %s exists: a phase ran that should not", name)
		}
	}

	// An ActionSet that has ended is not run again after an edit.
	e.patchSet("one-phase", `{"metadata":{"labels":{"a":"b"}}}`)
	e.blueprint("later", goPhases(createPhase("first")))
	e.actionSet("later")
	e.awaitEnd("later")
	e.wantEvents("one-phase", runScenarios["one-phase"].events...)
}

// playScenarios creates the ActionSets of the scenarios, and checks how they end.
func (e *actionsEnv) playScenarios(scenarios map[string]scenario) {
	e.Helper()
	for name, s := range scenarios {
		if s.blueprint != "" {
			e.blueprint(name, s.blueprint)
		}
		if len(s.actions) == 1 && s.actions[0] == "" {
			e.createSet(&v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: &v1alpha1.ActionSetSpec{}})
			continue
		}
		e.actionSet(name, s.actions...)
	}
	for name, s := range scenarios {
		set := e.wantEnd(name, e.text(name, s.end))
		e.wantEvents(name, strings.Split(e.text(name, strings.Join(s.events, "\x00")), "\x00")...)
		e.wantCleanUp(set)
	}
}
