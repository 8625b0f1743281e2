// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

func named(name, namespace string) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Name: name, Namespace: namespace}
}

func TestInvalidReferenceRejects(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.ActionSpec, string){
		"blueprint":        func(a *v1alpha1.ActionSpec, bad string) { a.Blueprint = bad },
		"object.name":      func(a *v1alpha1.ActionSpec, bad string) { a.Object.Name = bad },
		"object.namespace": func(a *v1alpha1.ActionSpec, bad string) { a.Object.Namespace = bad },
		"secrets[s].name": func(a *v1alpha1.ActionSpec, bad string) {
			a.Secrets = map[string]v1alpha1.ObjectReference{"s": named(bad, "ns")}
		},
		"secrets[s].namespace": func(a *v1alpha1.ActionSpec, bad string) {
			a.Secrets = map[string]v1alpha1.ObjectReference{"s": named("x", bad)}
		},
		"configMaps[c].name": func(a *v1alpha1.ActionSpec, bad string) {
			a.ConfigMaps = map[string]v1alpha1.ObjectReference{"c": named(bad, "ns")}
		},
		"configMaps[c].namespace": func(a *v1alpha1.ActionSpec, bad string) {
			a.ConfigMaps = map[string]v1alpha1.ObjectReference{"c": named("x", bad)}
		},
		"profile.name": func(a *v1alpha1.ActionSpec, bad string) { a.Profile = &v1alpha1.ObjectReference{Name: bad} },
		"profile.namespace": func(a *v1alpha1.ActionSpec, bad string) {
			a.Profile = &v1alpha1.ObjectReference{Name: "x", Namespace: bad}
		},
		"object.group": func(a *v1alpha1.ActionSpec, bad string) {
			a.Object = v1alpha1.ObjectReference{Name: "x", Group: bad, APIVersion: "v1", Resource: "things"}
		},
		"object.apiVersion": func(a *v1alpha1.ActionSpec, bad string) {
			a.Object = v1alpha1.ObjectReference{Name: "x", APIVersion: bad, Resource: "things"}
		},
		"object.resource": func(a *v1alpha1.ActionSpec, bad string) {
			a.Object = v1alpha1.ObjectReference{Name: "x", APIVersion: "v1", Resource: bad}
		},
	} {
		for _, bad := range []string{"../x", "a/b", "..", "x%2f"} {
			t.Run(field+"="+bad, func(t *testing.T) {
				set := newSet("go")
				change(&set.Spec.Actions[0], bad)
				o := observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": actionOf("one")}))
				status := statusOf(decide(o))
				if status == nil {
					t.Fatalf("it is not ended, but: %q", texts(decide(o)))
				}
				failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
				if failed == nil || failed.Reason != v1alpha1.ReasonInvalid || !strings.HasPrefix(failed.Message, "spec.actions[0]."+field+" is ") {
					t.Errorf("Failed is %+v", failed)
				}
			})
		}
	}
}

func TestReferenceNeedsName(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.ActionSpec){
		"object.name":        func(a *v1alpha1.ActionSpec) { a.Object.Name = "" },
		"secrets[s].name":    func(a *v1alpha1.ActionSpec) { a.Secrets = map[string]v1alpha1.ObjectReference{"s": {}} },
		"configMaps[c].name": func(a *v1alpha1.ActionSpec) { a.ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {}} },
		"profile.name":       func(a *v1alpha1.ActionSpec) { a.Profile = &v1alpha1.ObjectReference{} },
	} {
		set := newSet("go")
		change(&set.Spec.Actions[0])
		if err := checkReferences(set.Spec); err == nil || err.Error() != "spec.actions[0]."+field+" is empty" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := checkReferences(newSet("go", "go").Spec); err != nil {
		t.Errorf("one that can be read is refused: %v", err)
	}
}

func TestInvalidPhaseObjectRejects(t *testing.T) {
	action := &snapshotAction{Blueprint: actionOf("one"), Time: noon.Format(time.RFC3339Nano), Spec: v1alpha1.ActionSpec{Options: map[string]string{"name": "../x"}}}
	for kind, refused := range map[string]bool{"Secret": true, "ConfigMap": true, "Deployment": false} {
		action.Blueprint.Phases[0].Objects = map[string]v1alpha1.ObjectReference{"of": {Kind: kind, Name: "{{ .Options.name }}", Namespace: "ns"}}
		_, err := renderObjects(blueprint.NewBudget(t.Context()), action, inputs{})
		if message, _ := phase.FailureOf(err); refused != strings.HasPrefix(message, `objects.of of phase one.name is "../x"`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestExplainSubject(t *testing.T) {
	for template, want := range map[string]string{
		"{{ .Deployment.Name }}":                    `the subject of the action is the StatefulSet "db": the template uses .Deployment, which exists only for subjects of kind Deployment`,
		"{{ $.PVC.Name }}":                          "the template uses .PVC",
		"{{ range .Deployment.Pods }}x{{ end }}":    "the template uses .Deployment",
		"{{ .Namespace.Name | upper }}":             "the template uses .Namespace",
		"{{ .Profile.Location.Bucket }}":            "the action names no profile",
		"{{ with .StatefulSet }}{{ .No }}{{ end }}": "can't evaluate field No",
	} {
		r, status := rendering(`{"operation":"` + template + `"}`)
		r.Actions[0].Spec.Object = v1alpha1.ObjectReference{Kind: "StatefulSet", Name: "db", Namespace: "ns"}
		_, err := renderArgs(blueprint.NewBudget(t.Context()), r, phaseKey{0, 1}, &status.Actions[0], inputs{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("%s: %v", template, err)
		}
	}
}

func TestPhaseNamespace(t *testing.T) {
	task := v1alpha1.BlueprintPhase{Func: "KubeTask", Name: "task", Args: rawArgs(`{"image":"i","command":["c"]}`)}
	of := func(apiVersion, kind, namespace string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "web", "namespace": namespace}}
	}
	for name, c := range map[string]struct {
		object map[string]any
		want   string // namespace; "" if the phase is refused
	}{
		"in a namespace":     {of("apps/v1", "Deployment", "shop"), "shop"},
		"a namespace":        {of("v1", "Namespace", ""), "web"},
		"of the cluster":     {of("v1", "Node", ""), ""},
		"another Namespace":  {of("example.com/v1", "Namespace", ""), ""},
		"it was not read":    {nil, ""},
		"a name of its kind": {of("v1", "PersistentVolumeClaim", "db"), "db"},
	} {
		t.Run(name, func(t *testing.T) {
			action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{phaseOf("KubeOps", "first"), task}}
			o := answered(observe(newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action})))
			o.subjects[0].subject.Object = c.object
			if c.want != "" {
				o = withSnapshot(t, o)
			}
			p := decide(o)
			status := statusOf(p)
			failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
			if refused := failed != nil && failed.Reason == v1alpha1.ReasonInvalid && failed.Message == "phase task failed: "+phase.NoNamespace; refused != (c.want == "") {
				t.Errorf("Failed is %+v", failed)
			}
			if c.want == "" && status.Actions[0].Phases[1].State != v1alpha1.StateFailed {
				t.Errorf("the phase is not marked: %s", describeStatus(status))
			}
			if got := (&snapshotAction{Subject: o.subjects[0].subject}).call().Namespace; got != c.want {
				t.Errorf("its Pods are in %q, want %q", got, c.want)
			}
		})
	}
}
