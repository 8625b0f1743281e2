// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	v1 "millwright.dev/pkg/apis/apps/v1"
)

var update = flag.Bool("update", false, "write the golden files again")

// What is in these files is on running clusters: where the template in one changes, an upgrade of the operator rolls every
// Deployment of that kind. A new file may be added at any time.
func TestWhatIsAppliedIsTheGoldenOne(t *testing.T) {
	old := deploymentOf(newApp(), ofTheOldOperator)
	for name, desired := range map[string]any{
		"minimal.deployment": newDeployment(newApp(withSpec(specFrom(t, "minimal.yaml"))), nil),
		"rich.deployment":    newDeployment(newApp(withSpec(specFrom(t, "rich.yaml"))), nil),
		"old.deployment":     newDeployment(newApp(withSpec(specFrom(t, "minimal.yaml"))), old),
		"rich.service":       newService(newApp(withSpec(specFrom(t, "rich.yaml")))),
	} {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".yaml")
			got, err := yaml.Marshal(desired)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("apply configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// These hashes are on the Deployments of running clusters: never change a value here, change the code back.
func TestTheHashOfASpecNeverChanges(t *testing.T) {
	for file, want := range map[string]string{
		"minimal.yaml": "5e53da7639db24bf",
		"rich.yaml":    "307b4bbad7461998",
	} {
		if got := specHash(specFrom(t, file)); got != want {
			t.Errorf("the hash of %s is %s, want %s for ever", file, got, want)
		}
	}
}

func TestWhatIsAnotherSpecAndWhatIsNot(t *testing.T) {
	base := "size: 1\nimage: a\n"
	for name, tc := range map[string]struct {
		other string
		same  bool
	}{
		"name and age do not count":   {base + "name: b\nage: 12\n", true},
		"what is null is unset":       {base + "env: null\nresources: {}\n", true},
		"another size does":           {"size: 2\nimage: a\n", false},
		"another image does":          {"size: 1\nimage: b\n", false},
		"a port does":                 {base + "port: 80\n", false},
		"a variable does":             {base + "env: [{name: A}]\n", false},
		"a limit does":                {base + "resources: {limits: {cpu: 1}}\n", false},
		"a pull policy does":          {base + "imagePullPolicy: Never\n", false},
		"a pull secret does":          {base + "imagePullSecrets: [{name: a}]\n", false},
		"another ServiceAccount does": {base + "serviceAccountName: a\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) (spec v1.HelloAppSpec) {
				if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
					t.Fatal(err)
				}
				return spec
			}
			if one, other := specHash(parse(base)), specHash(parse(tc.other)); (one == other) != tc.same {
				t.Errorf("the hashes are %s and %s", one, other)
			}
		})
	}
}

func TestThePodsSatisfyTheSelectorWhateverItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		selector metav1.LabelSelector
		template map[string]string
	}{
		"the old operator's": {metav1.LabelSelector{MatchLabels: map[string]string{"app": "mock-containers"}}, map[string]string{"app": "mock-containers"}},
		"another value of a label of ours": {metav1.LabelSelector{MatchLabels: map[string]string{labelInstance: "y", "app": "y"}},
			map[string]string{labelInstance: "y", "app": "y"}},
		"expressions": {metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
			{Key: "tier", Operator: metav1.LabelSelectorOpExists},
			{Key: labelName, Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: labelInstance, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
		}}, map[string]string{"app": "b", "tier": "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			live := deploymentOf(app, func(d *appsv1.Deployment) { d.Spec.Selector, d.Spec.Template.Labels = &tc.selector, tc.template })
			desired := convert[appsv1.Deployment](newDeployment(app, live))
			if diff := cmp.Diff(&tc.selector, desired.Spec.Selector); diff != "" {
				t.Errorf("the selector does not stay (-live +desired):\n%s", diff)
			}
			selector, err := metav1.LabelSelectorAsSelector(desired.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if !selector.Matches(labels.Set(desired.Spec.Template.Labels)) {
				t.Errorf("%s does not select %v", selector, desired.Spec.Template.Labels)
			}
			if again := deploymentOf(app); cmp.Equal(again.Spec.Selector, live.Spec.Selector) {
				t.Error("this live selector is that of a new Deployment")
			}
		})
	}
}

func TestBuildersDoNotMutate(t *testing.T) {
	app := newApp(withSpec(specFrom(t, "rich.yaml")))
	live := deploymentOf(app)
	appBefore, liveBefore := app.DeepCopy(), live.DeepCopy()
	desired := newDeployment(app, live)
	desired.Spec.Selector.MatchLabels["more"], desired.Spec.Template.Labels["more"] = "x", "x"
	*desired.Spec.Template.Spec.Containers[0].Image = "x"
	drift(desired, live)
	if diff := cmp.Diff(appBefore, app) + cmp.Diff(liveBefore, live); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
}
