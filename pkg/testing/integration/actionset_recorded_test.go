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

// scenario is one ActionSet, with what users of Kanister know of it, and what is better here.
type scenario struct {
	// blueprint has the actions; none if it is empty.
	blueprint string
	// actions of the ActionSet; go on the namespace if there are none.
	actions []string
	// events in their short forms; see expand.
	events []string
	// end as summary tells it.
	end string
}

// failing is a phase that fails when it runs: its namespace is not there.
func failing(phase, namespace string) string {
	return strings.ReplaceAll(createsConfigMap(phase, "$ME"), "namespace: $NS", "namespace: "+namespace)
}

// creating is a phase that creates a ConfigMap named after the scenario and the phase.
func creating(phase string) string { return createsConfigMap(phase, "$ME-"+phase) }

// goPhases are the phases of the action go.
func goPhases(phases ...string) string {
	return "go:\n  phases:\n  - " + strings.Join(phases, "\n  - ") + "\n"
}

func withDefer(phase string) string { return "  deferPhase: " + phase + "\n" }

const onNothing = ", object: {kind: Namespace, name: $NS, namespace: $NS}}"

var runScenarios = map[string]scenario{
	"one-phase": {
		blueprint: goPhases(creating("first")),
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"three-phases": {
		blueprint: goPhases(creating("first"), creating("second"), creating("third")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", "EP second", "SP third", "EP third", "UC"},
		end:       `complete first=complete second=complete third=complete; 100%`,
	},
	"effect-fails": {
		blueprint: goPhases(creating("first"), failing("second", "no-such-ns"), creating("third")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", `F Failed to execute phase: namespaces "no-such-ns" not found`},
		end:       `failed first=complete second=failed third=pending; 33%; namespaces "no-such-ns" not found`,
	},
	"already-there": {
		blueprint: goPhases(createsConfigMap("first", "$ME"), createsConfigMap("second", "$ME")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", `F Failed to execute phase: configmaps "already-there" already exists`},
		end:       `failed first=complete second=failed; 50%; configmaps "already-there" already exists`,
	},
	"defer-success": {
		blueprint: goPhases(creating("first"), creating("second")) + withDefer(creating("cleanup")),
		events:    []string{"SA go", "SP first", "EP first", "SP second", "EP second", "SD cleanup", "ED cleanup", "UC"},
		end:       `complete first=complete second=complete defer cleanup=complete; 100%`,
	},
	"defer-core-fails": {
		blueprint: goPhases(failing("first", "no-such-ns"), creating("second")) + withDefer(creating("cleanup")),
		events:    []string{"SA go", "SP first", `F Failed to execute phase: namespaces "no-such-ns" not found`, "SD cleanup", "ED cleanup"},
		end:       `failed first=failed second=pending defer cleanup=complete; 0%; namespaces "no-such-ns" not found`,
	},
	"defer-fails": {
		blueprint: goPhases(creating("first")) + withDefer(failing("cleanup", "no-such-ns")),
		events:    []string{"SA go", "SP first", "EP first", "SD cleanup", `F Failed to execute defer phase: namespaces "no-such-ns" not found`},
		end:       `failed first=complete defer cleanup=failed; 100%; namespaces "no-such-ns" not found`,
	},
	"defer-both-fail": {
		blueprint: goPhases(failing("first", "no-such-ns-a")) + withDefer(failing("cleanup", "no-such-ns-b")),
		events: []string{
			"SA go", "SP first", `F Failed to execute phase: namespaces "no-such-ns-a" not found`,
			"SD cleanup", `F Failed to execute defer phase: namespaces "no-such-ns-b" not found`,
		},
		end: `failed first=failed defer cleanup=failed; 0%; namespaces "no-such-ns-b" not found`,
	},
	"artifacts": {
		blueprint: goPhases(creating("first")) + `
  outputArtifacts:
    art: {keyValue: {literal: plain, path: '/{{ .Options.dir }}/{{ .Phases.first.Output.name }}'}}
    snap: {kopiaSnapshot: '{{ .Options.dir | upper }}'}
`,
		actions: []string{"{name: go, blueprint: $ME, options: {dir: backups}" + onNothing},
		events:  []string{"SA go", "SP first", "EP first", "UC"},
		end:     `complete first=complete; 100%`,
	},
	"artifacts-fail": {
		blueprint: goPhases(creating("first")) + "  outputArtifacts: {art: {keyValue: {path: '{{ .Phases.first.Output.nope }}'}}}\n",
		events:    []string{"SA go", "SP first", "EP first", `F Failed to render output artifacts Failed to render template: "nope" not found (argument outputArtifacts.art.keyValue.path, at {{ .Phases.first.Output.nope }})`},
		end:       `failed first=complete; 100%; Failed to render template: "nope" not found (argument outputArtifacts.art.keyValue.path, at {{ .Phases.first.Output.nope }})`,
	},
	"missing-key": {
		blueprint: goPhases(createsConfigMap("first", "{{ .Options.nope }}")),
		events:    []string{"SA go", "SP first", `F Failed to execute phase: Failed to render template: "nope" not found (argument spec of phase first, at {{ .Options.nope }})`},
		end:       `failed first=failed; 0%; Failed to render template: "nope" not found (argument spec of phase first, at {{ .Options.nope }})`,
	},
	"missing-phase-object": {
		blueprint: goPhases("{objects: {s: {kind: Secret, name: none, namespace: $NS}}, "+creating("first")[1:], creating("second")) + withDefer(creating("cleanup")),
		events:    []string{"SA go", "SP first", `F Failed to init phase params: secrets "none" not found`, "SD cleanup", "ED cleanup"},
		end:       `failed first=failed second=pending defer cleanup=complete; 0%; secrets "none" not found`,
	},
	"missing-defer-object": {
		blueprint: goPhases(creating("first")) + withDefer("{objects: {s: {kind: Secret, name: none, namespace: $NS}}, "+creating("cleanup")[1:]),
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
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, preferredVersion: v1.2.3-alpha" + onNothing},
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"configmap-subject": {
		blueprint: goPhases(createsConfigMap("first", "{{ .Object.data.wanted }}")),
		actions:   []string{"{name: go, blueprint: $ME, object: {apiVersion: v1, resource: configmaps, name: subject, namespace: $NS}}"},
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
	"missing-inputs": { // a Blueprint may name what it does not use
		blueprint: goPhases(creating("first")) + "  inputArtifactNames: [a, b]\n  secretNames: [s]\n  configMapNames: [given]\n",
		actions:   []string{"{name: go, blueprint: $ME, artifacts: {a: {}}, configMaps: {given: {name: subject, namespace: $NS}}" + onNothing},
		events: []string{
			"SA go", `W "MissingInput" Action go of blueprint missing-inputs names artifacts that the ActionSet does not give: b`,
			`W "MissingInput" Action go of blueprint missing-inputs names Secrets that the ActionSet does not give: s`, "SP first", "EP first", "UC",
		},
		end: `complete first=complete; 100%`,
	},
	"null-arg": {
		blueprint: goPhases("{func: KubeOps, name: first, args: {operation: create, namespace: $NS, objectReference: null, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: $ME}}'}}"),
		events:    []string{"SA go", "SP first", "EP first", "UC"},
		end:       `complete first=complete; 100%`,
	},
}

func TestActionSetKanisterStatusAndEvents(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.createConfigMap("subject", map[string]string{"wanted": "made-for-the-subject"})
	e.play(runScenarios)

	want := map[string]v1alpha1.Artifact{"art": {KeyValue: map[string]string{"literal": "plain", "path": "/backups/artifacts-first"}}, "snap": {KopiaSnapshot: "BACKUPS"}}
	if diff := cmp.Diff(want, e.getSet("artifacts").Status.Actions[0].Artifacts); diff != "" {
		t.Errorf("the artifacts (-want +got):\n%s", diff)
	}
	templates := map[string]v1alpha1.Artifact{"art": {KeyValue: map[string]string{"path": "{{ .Phases.first.Output.nope }}"}}}
	if diff := cmp.Diff(templates, e.getSet("artifacts-fail").Status.Actions[0].Artifacts); diff != "" {
		t.Errorf("the artifacts of a run that has failed (-want +got):\n%s", diff)
	}
	if e.configMap("made-for-the-subject") == nil {
		t.Error("a phase does not see its subject")
	}
	output := outputs(t, e.getSet("one-phase"), "first")
	of := map[string]any{"apiVersion": "v1", "group": "", "resource": "configmaps", "kind": "", "name": "one-phase-first", "namespace": e.namespace}
	if diff := cmp.Diff(of, output); diff != "" {
		t.Errorf("the output of KubeOps (-want +got):\n%s", diff)
	}
	for _, name := range []string{"effect-fails-third", "defer-core-fails-second", "missing-phase-object-first", "missing-phase-object-second"} {
		if e.configMap(name) != nil {
			t.Errorf("%s was made by a phase that should not have run", name)
		}
	}

	// What is done to it after its end changes nothing.
	e.patchSet("one-phase", `{"metadata":{"labels":{"a":"b"}}}`)
	e.blueprint("later", goPhases(creating("first")))
	e.actionSet("later")
	e.awaitEnd("later")
	e.hasEvents("one-phase", runScenarios["one-phase"].events...)
}

// play creates all scenarios, and looks what has become of them.
func (e *actionsEnv) play(scenarios map[string]scenario) {
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
		set := e.ends(name, e.text(name, s.end))
		e.hasEvents(name, strings.Split(e.text(name, strings.Join(s.events, "\x00")), "\x00")...)
		e.leavesNothing(set)
	}
}
