// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATemplateSees(t *testing.T) {
	for does, test := range map[string]struct{ source, want string }{
		"the names of a workload":                      {`{{ .StatefulSet.Namespace }}/{{ .StatefulSet.Name }}`, "db/pg"},
		"the Pods of a workload":                       {`{{ index .StatefulSet.Pods 1 }} of {{ len .StatefulSet.Pods }}`, "pg-0 of 2"},
		"the containers of each Pod":                   {`{{ index .StatefulSet.Containers 0 1 }}`, "side"},
		"the claims of each Pod":                       {`{{ range $c, $m := index .StatefulSet.PersistentVolumeClaims "pg-0" }}{{ $c }}={{ $m }}{{ end }}`, "data-pg-0=/data"},
		"nothing of a workload of another kind":        {`{{ if .Deployment }}yes{{ else }}no{{ end }}{{ if .DeploymentConfig }}yes{{ end }}{{ if .PVC }}yes{{ end }}`, "no"},
		"the namespace":                                {`{{ .Namespace.Name }}`, "db"},
		"the subject itself":                           {`{{ .Object.metadata.name }} {{ .Object.spec.replicas }}`, "pg 2"},
		"artifacts of an earlier action":               {`{{ .ArtifactsIn.dump.KeyValue.path }} {{ .ArtifactsIn.dump.KopiaSnapshot }}`, "/b/1 snap"},
		"ConfigMaps":                                   {`{{ .ConfigMaps.conf.Data.bucket }}`, "bkt"},
		"Secrets whose data are bytes":                 {`{{ .Secrets.creds.Data.password | toString }} {{ .Secrets.creds.Name }}`, "hunter2 creds"},
		"options":                                      {`{{ .Options.tag }}`, "v1"},
		"the time of the action":                       {`{{ .Time }}`, "2026-08-01T02:03:04.000000005Z"},
		"the time, parsed and formatted":               {`{{ toDate "2006-01-02T15:04:05.999999999Z07:00" .Time | date "2006-01-02 15:04" }}`, "2026-08-01 02:03"},
		"now as the time of the action":                {`{{ now | date "15:04:05" }} {{ ago now }}`, "02:03:04 0s"},
		"outputs of earlier phases":                    {`{{ .Phases.dump.Output.size }} {{ .Phases.dump.Output.nested.a }}`, "12 b"},
		"a phase whose name is no identifier":          {`{{ (index .Phases "a-b").Output.k }}`, "v"},
		"Secrets of a phase":                           {`{{ index .Phases.dump.Secrets.creds.Data "password" | toString | b64enc }}`, "aHVudGVyMg=="},
		"outputs of the deferPhase":                    {`{{ .DeferPhase.Output.done }}`, "yes"},
		"no current phase":                             {`{{ if .CurrentPhase }}yes{{ else }}no{{ end }}`, "no"},
		"what Pods are given":                          {`{{ .PodOverride.hostNetwork }} {{ .PodAnnotations.note }} {{ .PodLabels.app }}`, "true n l"},
		"break and continue":                           {`{{ range .StatefulSet.Pods }}{{ . }}{{ break }}{{ end }}{{ range .StatefulSet.Pods }}{{ continue }}x{{ end }}`, "pg-1"},
		"an empty text for index of a missing key":     {`{{ index .Options "nope" }}.`, "."},
		"no value for index of a missing output":       {`{{ index .Phases.dump.Output "nope" }}`, "<no value>"},
		"the functions of public blueprints":           {`{{ "aGk=" | b64dec | upper | quote }} {{ replace "/" "-" "a/b" }} {{ printf "%03d" 7 }}`, `"HI" a-b 007`},
		"the keys of a map in order":                   {`{{ keys .Object | join "," }} {{ values .Phases.dump.Output | len }}`, "metadata,spec 2"},
		"a list in order, itself as it was":            {`{{ sortAlpha .StatefulSet.Pods }} {{ .StatefulSet.Pods }}`, "[pg-0 pg-1] [pg-1 pg-0]"},
		"templates of its own":                         {`{{ define "x" }}<{{ . }}>{{ end }}{{ template "x" .Options.tag }}`, "<v1>"},
		"what is no template as it is":                 {`$(date) } {`, "$(date) } {"},
		"a profile that is printed without its secret": {`{{ .Profile.Credential }}`, "keyPair"},
	} {
		t.Run(does, func(t *testing.T) {
			got, err := render(t, testParams(), test.source)
			if err != nil || got != test.want {
				t.Errorf("%s\ngives %q, %v\nwant  %q", test.source, got, err, test.want)
			}
		})
	}
}

// The bytes are those that tools inside existing images have always been given.
func TestTheProfileAsJSONHasTheBytesThatToolsParse(t *testing.T) {
	typed := testParams()
	typed.Profile = &Profile{
		Location: Location{Type: "gcs", Bucket: "b"},
		Credential: Credential{Type: "secret", Secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", UID: "u", ResourceVersion: "7"},
			Data:       map[string][]byte{"aws_access_key_id": []byte("id")}, Type: "secrets.kanister.io/aws",
		}},
	}
	none := testParams()
	none.Profile = nil
	for of, test := range map[string]struct {
		params Params
		want   string
	}{
		"a key pair": {testParams(), `{"Location":{"type":"s3Compliant","bucket":"bkt","endpoint":"https://s3.example.test:9000","prefix":"pre/fix","region":"eu-1"},"Credential":{"Type":"keyPair","KeyPair":{"ID":"AKIDEXAMPLE","Secret":"sec\u003cret\u003e\u00261"},"Secret":null,"KopiaServerSecret":null},"SkipSSLVerify":true}`},
		"a typed Secret": {typed, `{"Location":{"type":"gcs","bucket":"b","endpoint":"","prefix":"","region":""},"Credential":{"Type":"secret","KeyPair":null,` +
			`"Secret":{"metadata":{"name":"s","namespace":"n","uid":"u","resourceVersion":"7"},"data":{"aws_access_key_id":"aWQ="},"type":"secrets.kanister.io/aws"},"KopiaServerSecret":null},"SkipSSLVerify":false}`},
		"no profile": {none, "null"},
	} {
		t.Run(of, func(t *testing.T) {
			got, err := render(t, test.params, `{{ toJson .Profile }}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnlyTextsOfArgumentsAreRendered(t *testing.T) {
	args := map[string]any{
		"command": []any{"sh", "-c", "echo {{ .Options.tag }}", []any{"{{ .Time }}"}},
		"labels":  map[string]any{"x-{{ .Options.tag }}": "{{ .StatefulSet.Name }}", "n": int64(3), "f": 1.5, "b": true, "null": nil},
	}
	got, err := renderer(t, testParams()).Args("p", Function{}, args)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"command": []any{"sh", "-c", "echo v1", []any{"2026-08-01T02:03:04.000000005Z"}},
		"labels":  map[string]any{"x-v1": "pg", "n": int64(3), "f": 1.5, "b": true, "null": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if args["command"].([]any)[2] != "echo {{ .Options.tag }}" {
		t.Error("the given arguments were changed")
	}
}

func TestConditionsAreLeftToTheirFunction(t *testing.T) {
	args := map[string]any{"timeout": "{{ .Options.tag }}", "conditions": map[string]any{"anyOf": []any{map[string]any{
		"condition": "{{ .status.ok }}", "objectReference": map[string]any{"name": "{{ .StatefulSet.Name }}"},
	}}}}
	for name, timeout := range map[string]string{"Wait": "v1", "WaitV2": "{{ .Options.tag }}"} {
		function, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := renderer(t, testParams()).Args("p", function, args)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"timeout": timeout, "conditions": map[string]any{"anyOf": []any{map[string]any{
			"condition": "{{ .status.ok }}", "objectReference": map[string]any{"name": "pg"},
		}}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestArtifactsAreRendered(t *testing.T) {
	got, err := renderer(t, testParams()).Texts("", "outputArtifacts.dump", map[string]string{"path": "/b/{{ .Phases.dump.Output.size }}"})
	if diff := cmp.Diff(map[string]string{"path": "/b/12"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = renderer(t, testParams()).Texts("", "outputArtifacts.dump", map[string]string{"path": "{{ .Phases.dump.Output.nope }}"})
	if err == nil {
		t.Fatal("rendered")
	}
	wantContains(t, err.Error(), `Failed to render template: "nope" not found`, "outputArtifacts.dump.path")
}

func TestErrorNamesTheExpression(t *testing.T) {
	for of, test := range map[string]struct {
		source string
		want   []string
	}{
		"a missing key":                        {`{{ .Options.nope }}`, []string{`Failed to render template: "nope" not found`, "argument command[1] of phase dump", "{{ .Options.nope }}"}},
		"a missing key given to a function":    {`{{ .Options.nope | upper }}`, []string{`"nope" not found`, "{{ .Options.nope }}"}},
		"a subject of another kind":            {`{{ .Deployment.Name }}`, []string{"nil pointer", "{{ .Deployment.Name }}"}},
		"a field that is none":                 {`{{ .ArtifactsOut }}`, []string{"ArtifactsOut", "argument command[1] of phase dump"}},
		"a function that is none":              {"\n{{ nope 1 }}", []string{`line 2: there is no function "nope"`}},
		"a function that is refused":           {`{{ env "HOME" }}`, []string{"reads the operator's machine", `{{ env "HOME" }}`}},
		"bad syntax":                           {`{{ if }}`, []string{"line 1: missing value for if"}},
		"a function that panics":               {`{{ repeat -1 "x" }}`, []string{"negative Repeat count"}},
		"a zone that is a file of the machine": {`{{ dateInZone "15:04" now "Europe/Paris" }}`, []string{"templates know UTC only"}},
		"a refusal of the Blueprint":           {`{{ fail "not this way" }}`, []string{"not this way"}},
	} {
		t.Run(of, func(t *testing.T) {
			_, err := renderer(t, testParams()).Args("dump", Function{}, map[string]any{"command": []any{"sh", test.source}})
			var failed *RenderError
			if !errors.As(err, &failed) {
				t.Fatalf("the error is %v", err)
			}
			wantContains(t, err.Error(), test.want...)
			for _, never := range []string{"hunter2", "AKIDEXAMPLE", stepFunction, enterFunction, printFunction} {
				if strings.Contains(err.Error(), never) {
					t.Errorf("%v says %q", err, never)
				}
			}
		})
	}
}

func TestTwoKeysThatRenderToOneAreAnError(t *testing.T) {
	_, err := renderer(t, testParams()).Args("p", Function{}, map[string]any{"v1": "a", "{{ .Options.tag }}": "b"})
	if err == nil {
		t.Error("one of the two was lost")
	}
}

func TestATemplateChangesNothingOfItsCaller(t *testing.T) {
	params, before := testParams(), testParams()
	params.Profile.Credential.Secret, before.Profile.Credential.Secret = &corev1.Secret{}, &corev1.Secret{}
	for _, source := range []string{
		`{{ set .Object "x" "y" }}{{ unset .Phases.dump.Output.nested "a" }}{{ set .PodOverride "x" 1 }}{{ set .DeferPhase.Output "x" 1 }}`,
		`{{ merge .Object (dict "z" 1) }}{{ sortAlpha .StatefulSet.Pods }}{{ sortAlpha (index .StatefulSet.Containers 0) }}`,
		`{{ .Profile.Credential.Secret.Unmarshal (index .Secrets.creds.Data "password") }}`,
	} {
		if _, err := render(t, params, source); err != nil {
			t.Log(err)
		}
	}
	if diff := cmp.Diff(before, params); diff != "" {
		t.Error(diff)
	}
}

func TestParamsWithoutATimeAreRefused(t *testing.T) {
	if _, err := NewRenderer(NewBudget(t.Context()), Params{}); err == nil {
		t.Error("there is a renderer without a clock")
	}
}
