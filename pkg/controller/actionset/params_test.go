// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// rendering is a run of one action with these args of its second phase, whose first phase is complete.
func rendering(args string) (*snapshot, *v1alpha1.ActionSetStatus) {
	action := withDefer(actionOf("one", "two"), "KubeOps", "d")
	action.Phases[1].Args = rawArgs(args)
	action.DeferPhase.Args = rawArgs(args)
	r := &snapshot{Actions: []snapshotAction{{
		Spec: v1alpha1.ActionSpec{
			Name: "a", Options: map[string]string{"deadline": "5"}, PodOverride: rawArgs(`{"priority":3}`),
			Artifacts: map[string]v1alpha1.Artifact{"dump": {KeyValue: map[string]string{"path": "/dump"}}},
		},
		Blueprint: action, Time: noon.Format(time.RFC3339Nano),
		Subject: subject{StatefulSet: &blueprint.Workload{Name: "db", Pods: []string{"db-0", "db-1"}}, Object: map[string]any{"kind": "StatefulSet"}},
	}}}
	status := statusWith("complete", "pending", "pending")
	status.Actions[0].Phases[0].Output = rawArgs(`{"count":3000000,"name":"x"}`)
	return r, status
}

func secretOf(value string) map[string]corev1.Secret {
	return map[string]corev1.Secret{"s": {Data: map[string][]byte{"key": []byte(value)}}}
}

func TestTemplateInputs(t *testing.T) {
	read := inputs{
		action: inputObjects{secrets: secretOf("of the action")},
		phases: map[int]inputObjects{0: {secrets: secretOf("of one")}, 1: {secrets: secretOf("of two")}, phase.Deferred: {secrets: secretOf("of d")}},
	}
	for template, want := range map[string]string{
		"{{ len .StatefulSet.Pods }}":                     "2",
		"{{ .Object.kind }}":                              "StatefulSet",
		"{{ .ArtifactsIn.dump.KeyValue.path }}":           "/dump",
		"{{ .Options.deadline }}":                         "5",
		"{{ .Time }}":                                     "2026-11-20T12:00:00.123456789Z",
		"{{ .PodOverride.priority }}":                     "3",
		"{{ .Secrets.s.Data.key | toString }}":            "of the action",
		"{{ .Phases.one.Output.name }}":                   "x",
		"{{ .Phases.one.Output.count }}":                  "3000000",
		"{{ .Phases.one.Secrets.s.Data.key | toString }}": "of one",
		"{{ .Phases.two.Secrets.s.Data.key | toString }}": "of two",
		"{{ len .DeferPhase.Secrets }}":                   "0",
	} {
		r, status := rendering(`{"operation":"` + template + `"}`)
		args, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, 1}, &status.Actions[0], read)
		if err != nil || args["operation"] != want {
			t.Errorf("%s is %q (%v), want %q", template, args["operation"], err, want)
		}
	}
	r, status := rendering(`{"operation":"{{ .DeferPhase.Secrets.s.Data.key | toString }} {{ len .Phases }}"}`)
	args, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, phase.Deferred}, &status.Actions[0], read)
	if err != nil || args["operation"] != "of d 1" {
		t.Errorf("a deferPhase sees %q (%v), want its own Secret, and only the phase that has begun", args["operation"], err)
	}
}

// A run that is resumed renders what the process before it would have rendered.
func TestRenderingIsDeterministic(t *testing.T) {
	r, status := rendering(`{"operation":"{{ .Time }} {{ now | date \"15:04\" }} {{ toJson .StatefulSet }} {{ toJson .Phases.one.Output }}"}`)
	first, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, 1}, &status.Actions[0], inputs{})
	if err != nil {
		t.Fatal(err)
	}
	set := newSet("a")
	secret, err := newSnapshotSecret(set, r)
	if err != nil {
		t.Fatal(err)
	}
	read, err := readSnapshot(set, secret)
	if err != nil {
		t.Fatal(err)
	}
	second, err := renderArgs(blueprint.NewBudget(t.Context()), read, phaseKey{0, 1}, &stored(t, status).Actions[0], inputs{})
	if diff := cmp.Diff(first, second); diff != "" || err != nil {
		t.Errorf("%v (-first +second)\n%s", err, diff)
	}
}

func TestMissingOutputIsNamed(t *testing.T) {
	r, status := rendering(`{"operation":"{{ .Phases.two.Output.name }}"}`)
	if _, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, 1}, &status.Actions[0], inputs{}); err == nil || !strings.Contains(err.Error(), `"name" not found`) {
		t.Errorf("the error is %v", err)
	}
}

// TestObjectThatIsNotReadIsExplained: an object of a phase that has no kind, or another one than the template expects.
func TestObjectThatIsNotReadIsExplained(t *testing.T) {
	for _, test := range []struct{ kind, template, want string }{
		{"", "{{ .Phases.two.Secrets.own.Data.key }}", `"own" not found: objects.own of phase two has the kind "", and only Secrets and ConfigMaps are read`},
		{"Pod", "{{ .Phases.two.ConfigMaps.own.Data.key }}", `objects.own of phase two has the kind "Pod", and only Secrets and ConfigMaps are read`},
		{"ConfigMap", "{{ .Phases.two.Secrets.own.Data.key }}", `objects.own of phase two is a ConfigMap: use .ConfigMaps`},
		{"secret", "{{ .Phases.two.ConfigMaps.own.Data.key }}", `objects.own of phase two is a Secret: use .Secrets`},
		{"", "{{ .Options.own }}", `"own" not found (`},
		{"", "{{ .Phases.two.Secrets.other.Data.key }}", `"other" not found (`},
		{"ConfigMap", "{{ .Secrets.own.Data.key }}", `"own" not found (`},
		{"ConfigMap", "{{ .Phases.one.Secrets.own.Data.key }}", `"own" not found (`},
	} {
		r, status := rendering(`{"operation":"` + test.template + `"}`)
		r.Actions[0].Blueprint.Phases[1].Objects = map[string]v1alpha1.ObjectReference{"own": {Kind: test.kind, Name: "x"}}
		_, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, 1}, &status.Actions[0], inputs{phases: map[int]inputObjects{1: {}}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of an object of kind %q: got %v, want %s", test.template, test.kind, err, test.want)
		}
	}
}

func TestRenderPhaseObjects(t *testing.T) {
	r, _ := rendering(`{"operation":"create"}`)
	action := &r.Actions[0]
	action.Blueprint.Phases[1].Objects = map[string]v1alpha1.ObjectReference{
		"secret": {Kind: "Secret", Name: "{{ .StatefulSet.Name }}-credentials", Namespace: "{{ .Options.deadline }}"},
		"other":  {Kind: "Thing", Name: "x"},
	}
	action.Blueprint.DeferPhase.Objects = map[string]v1alpha1.ObjectReference{"config": {Kind: "configmap", Name: "c"}}
	rendered, err := renderObjects(blueprint.NewBudget(t.Context()), action, inputs{})
	if err != nil {
		t.Fatal(err)
	}
	action.resolveObjects(rendered)
	named := objectsOf(&action.Blueprint.Phases[1])
	want := map[string]v1alpha1.ObjectReference{"secret": {Kind: "Secret", Name: "db-credentials", Namespace: "5"}}
	if diff := cmp.Diff(want, named.secrets); diff != "" || len(named.configMaps) > 0 {
		t.Errorf("phase two: ConfigMaps %v; Secrets (-want +got)\n%s", named.configMaps, diff)
	}
	if named := objectsOf(action.Blueprint.DeferPhase); named.configMaps["config"].Name != "c" {
		t.Errorf("the deferPhase has the ConfigMaps %v", named.configMaps)
	}

	action.Blueprint.Phases[1].Objects = map[string]v1alpha1.ObjectReference{"secret": {Kind: "Secret", Name: "{{ .Phases.one.Output.name }}"}}
	if _, err := renderObjects(blueprint.NewBudget(t.Context()), action, inputs{}); err == nil {
		t.Error("the objects of a phase can see the output of another, which has not begun")
	}
}

func TestRenderOutputArtifacts(t *testing.T) {
	r, status := rendering(`{"operation":"create"}`)
	r.Actions[0].Blueprint.OutputArtifacts = map[string]v1alpha1.Artifact{
		"art":  {KeyValue: map[string]string{"literal": "plain", "path": "/backups/{{ .Phases.one.Output.name }}"}},
		"snap": {KopiaSnapshot: `{{ upper "backups" }} {{ .DeferPhase.Output.id }}`},
	}
	status.Actions[0].DeferPhase.State, status.Actions[0].DeferPhase.Output = v1alpha1.StateComplete, rawArgs(`{"id":"7"}`)
	got, err := renderOutput(blueprint.NewBudget(t.Context()), r, 0, &status.Actions[0], inputs{})
	want := map[string]v1alpha1.Artifact{
		"art":  {KeyValue: map[string]string{"literal": "plain", "path": "/backups/x"}},
		"snap": {KopiaSnapshot: "BACKUPS 7"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	r.Actions[0].Blueprint.OutputArtifacts["art"] = v1alpha1.Artifact{KeyValue: map[string]string{"path": "{{ .Phases.one.Output.nope }}"}}
	if _, err := renderOutput(blueprint.NewBudget(t.Context()), r, 0, &status.Actions[0], inputs{}); err == nil || !strings.Contains(err.Error(), `"nope" not found`) {
		t.Errorf("the error is %v", err)
	}
}
