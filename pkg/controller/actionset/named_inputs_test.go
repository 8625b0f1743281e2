// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// The objects of a phase are those that it names, also for the deferPhase, and of a phase that has begun.
func TestMentionedObjectsOfPhases(t *testing.T) {
	action := &snapshotAction{Blueprint: withDefer(actionOf("one", "two"), "KubeOps", "d")}
	secret := func(name string) map[string]v1alpha1.ObjectReference {
		return map[string]v1alpha1.ObjectReference{"s": {Kind: "Secret", Name: name}}
	}
	action.Blueprint.Phases[0].Objects, action.Blueprint.Phases[1].Objects, action.Blueprint.DeferPhase.Objects = secret("one"), secret("two"), secret("d")
	status := &statusWith("complete", "pending", "complete").Actions[0]
	for template, want := range map[string][]string{
		"{{ .Phases.one.Secrets.s }}":                                         {"one"},
		"{{ .Phases.two.Secrets.s }}":                                         nil,
		"{{ .DeferPhase.Secrets.s }}":                                         {"d"},
		"{{ .DeferPhase.Output }}":                                            nil,
		"{{ with .Phases }}{{ end }}":                                         {"one, if it exists"},
		"{{ with .Phases }}{{ end }}{{ .Phases.one.Secrets.s }}":              {"one"},
		"{{ with .Phases }}{{ end }}{{ range .Phases.one.Secrets }}{{ end }}": {"one"},
		"{{ . }}": {"d, if it exists", "one, if it exists"},
	} {
		m, b := &blueprint.Mentions{}, blueprint.NewBudget(t.Context())
		if err := m.AddTexts(b, map[string]string{"a": template}); err != nil {
			t.Fatal(err)
		}
		named := inputsNamed(action, status).mentionedBy(m, action)
		var got []string
		for _, index := range []int{phase.Deferred, 0, 1} {
			for _, reference := range named.phases[index].secrets {
				got = append(got, reference.Name)
			}
			for _, reference := range named.optional[index].secrets {
				got = append(got, reference.Name+", if it exists")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", template, diff)
		}
	}
}
