// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// What the action and its phases name is deleted while a phase runs. Only a phase, or artifacts, that use it fail, and the deferPhase runs.
func TestInputsGone(t *testing.T) {
	const (
		complete  = "complete go[ one=complete long=complete two=complete defer cleanup=complete ] ended"
		failed    = "failed go[ one=complete long=complete two=failed defer cleanup=complete ] ended"
		noSecret  = `secrets "s" not found`
		artifacts = "artifacts"
	)
	for use, test := range map[string]struct {
		template, by string
		want, error  string
		stays        bool   // the Profile stays; the Secret of its credential does not
		denied       bool   // the Secret own stays, and may not be read
		made         string // the ConfigMap of the phase two
	}{
		"none":                       {want: complete},
		"an option":                  {template: "{{ .Options.o }}", want: complete},
		"the output of a phase":      {template: `{{ len (index .Phases "one").Output }}`, want: complete},
		"a Secret":                   {template: "{{ .Secrets.s.Name }}", want: failed, error: noSecret},
		"a Secret by index":          {template: `x{{ (index .Secrets "s").Name }}`, want: failed, error: noSecret},
		"all Secrets":                {template: "x{{ range .Secrets }}{{ .Name }}{{ end }}", want: failed, error: noSecret},
		"a ConfigMap":                {template: "{{ .ConfigMaps.c.Name }}", want: failed, error: `configmaps "c" not found`},
		"the Profile":                {template: "{{ .Profile.Location.Bucket }}", want: failed, error: `profiles.cr.kanister.io "p" not found`},
		"the Profile's location":     {template: "{{ .Profile.Location.Bucket }}", want: complete, stays: true},
		"the Profile's credential":   {template: "{{ .Profile.Credential.KeyPair.ID }}", want: failed, error: noSecret, stays: true},
		"a Secret of a phase":        {template: "{{ .Phases.one.Secrets.own.Name }}", want: failed, error: `secrets "own" not found`},
		"a ConfigMap of a phase":     {template: "{{ .Phases.one.ConfigMaps.own.Name }}", want: failed, error: `configmaps "own" not found`},
		"a phase as a whole":         {template: `{{ if .Phases.one }}{{ len .Phases.one.Output }}{{ end }}`, want: complete},
		"in artifacts":               {template: "{{ .Secrets.s.Name }}", by: artifacts, want: strings.Replace(complete, "complete", "failed", 1), error: noSecret},
		"an object of a whole phase": {template: `x{{ with .Phases.one }}{{ end }}{{ index .Phases.one.Secrets "own" }}`, want: failed, error: `secrets "own" not found`},
		"what is left of a phase": {
			template: `{{ with .Phases.one }}{{ (index .Secrets "stays").Name | len }}{{ .ConfigMaps.kept.Name }}{{ end }}`, want: complete, made: "two5flag",
		},
		"what may be read of a phase": {
			template: `{{ with .Phases.one }}{{ (index .Secrets "stays").Name | len }}{{ .ConfigMaps.kept.Name }}{{ end }}`, want: complete, made: "two5flag", denied: true,
		},
		"another object of a phase": {template: `x{{ with .Phases.one }}{{ len .Output }}{{ end }}{{ .Phases.one.ConfigMaps.kept.Name }}`, want: complete},
		"option in artifacts":       {template: "{{ .Options.o }}", by: artifacts, want: complete},
	} {
		for _, restarted := range []bool{false, true} {
			name := use
			if restarted {
				name += ", by another process"
			}
			t.Run(name, func(t *testing.T) {
				set := newSet("go")
				spec := &set.Spec.Actions[0]
				spec.Options = map[string]string{"o": "x"}
				spec.Secrets, spec.ConfigMaps = map[string]v1alpha1.ObjectReference{"s": {Name: "s"}}, map[string]v1alpha1.ObjectReference{"c": {Name: "c"}}
				spec.Profile = &v1alpha1.ObjectReference{Name: "p"}
				one, two, deferred := configMapPhase("one"), configMapPhase("two"), configMapPhase("cleanup")
				one.Objects = map[string]v1alpha1.ObjectReference{
					"own": {Kind: "Secret", Name: "own"}, "map": {Kind: "ConfigMap", Name: "own"},
					"kept": {Kind: "ConfigMap", Name: "flag"}, "stays": {Kind: "Secret", Name: "stays"},
				}
				action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{one, waitFor("flag"), two}, DeferPhase: &deferred}
				if test.by == artifacts {
					action.OutputArtifacts = map[string]v1alpha1.Artifact{"a": {KeyValue: map[string]string{"k": test.template}}}
				} else {
					action.Phases[2].Args = creating("two" + test.template)
				}
				if strings.Contains(test.template, "ConfigMaps.own") {
					action.Phases[2].Args = creating("two" + strings.Replace(test.template, ".own", ".map", 1))
				}
				inBubble(t, set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
					profiles := fakeapi.Of[v1alpha1.Profile](a.Server, profilesResource)
					profiles.Create(&v1alpha1.Profile{
						ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
						Credential: v1alpha1.Credential{Type: "keyPair", KeyPair: &v1alpha1.KeyPair{
							IDField: "id", SecretField: "key", Secret: v1alpha1.ObjectReference{Name: "s"},
						}},
					})
					for _, name := range []string{"s", "own", "stays"} {
						a.secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"id": nil, "key": nil}})
					}
					configMaps := a.createConfigMap("flag", "false")
					a.createConfigMap("c", "")
					a.createConfigMap("own", "")
					a.startProcess()
					if restarted {
						a.stopProcess()
					}
					a.secrets.Delete("ns", "s")
					if test.denied {
						a.refuse = func(request string) error {
							if request == "get secrets" && a.object == "own" {
								return apierrors.NewForbidden(corev1.Resource("secrets"), "own", errors.New("no RoleBinding"))
							}
							return nil
						}
					} else {
						a.secrets.Delete("ns", "own")
					}
					configMaps.Delete("ns", "c")
					configMaps.Delete("ns", "own")
					if !test.stays {
						profiles.Delete("ns", "p")
					}
					if restarted {
						a.startProcess()
					}
					a.waitInOutage()
					configMaps.Update("ns", "flag", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
					a.waitHour()
					if test.made != "" && configMaps.Get("ns", test.made) == nil {
						t.Errorf("the ConfigMap %s was not made", test.made)
					}
					status := a.set().Status
					if got := a.states(); got != test.want || status.Error.Message != test.error {
						t.Errorf("the states are %s, with the error %q; want %s, with %q", got, status.Error.Message, test.want, test.error)
					}
				})
			})
		}
	}
}
