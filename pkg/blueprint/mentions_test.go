// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// mentioned returns what the template mentions of testParams, apart from what is in every snapshot.
func mentioned(t testing.TB, sources ...string) (m *Mentions, paths []string) {
	t.Helper()
	m = &Mentions{}
	args := make([]any, len(sources))
	for i := range sources {
		args[i] = sources[i]
	}
	if err := m.AddArgs(NewBudget(t.Context()), Function{Raw: []string{"raw"}}, map[string]any{"a": args, "raw": "{{ .Secrets }}"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"Secrets creds", "ConfigMaps conf", "Profile", "Phases dump Secrets creds", "Phases dump ConfigMaps", "Phases a-b Secrets", "DeferPhase Secrets",
	} {
		if m.Has(strings.Fields(path)...) {
			paths = append(paths, path)
		}
	}
	return m, paths
}

func TestMentions(t *testing.T) {
	const (
		secret, configMap, profile  = "Secrets creds", "ConfigMaps conf", "Profile"
		ofPhase, configMapsOfPhase  = "Phases dump Secrets creds", "Phases dump ConfigMaps"
		ofOtherPhase, ofDeferPhase  = "Phases a-b Secrets", "DeferPhase Secrets"
		withNumber, withConcatenate = `{{ index .Secrets 1 }}`, `{{ index .Secrets (print "cre" "ds") }}`
	)
	everything := []string{secret, configMap, profile, ofPhase, configMapsOfPhase, ofOtherPhase, ofDeferPhase}
	for source, want := range map[string][]string{
		`plain .Secrets.creds`: nil,
		`{{ .Options.tag }} {{ .Object.Secrets.creds }} {{ .Time }}`:   nil,
		`{{ .Secrets.creds.Data.password | toString }}`:                {secret},
		`{{ $.Secrets.creds }}`:                                        {secret},
		`{{ (.Secrets).creds }}`:                                       {secret},
		`{{ .Secrets.other.Data.creds }}`:                              nil,
		`{{ index .Secrets "creds" }}`:                                 {secret},
		`{{ index .Secrets "other" "creds" }}`:                         nil,
		`{{ (index .Secrets "other").Data.creds }}`:                    nil,
		withConcatenate:                                                {secret},
		withNumber:                                                     {secret},
		`{{ index .Secrets .ConfigMaps.conf.Data.name }}`:              {secret, configMap},
		`{{ (index .Secrets .Options.x).Data.creds }}`:                 {secret},
		`{{ define "t" }}{{ $.Secrets.creds }}{{ .Profile }}{{ end }}`: {secret, profile}, // that is the main template
		`{{ define "t" }}{{ .Profile }}{{ end }} {{/* no text */}}`:    {profile},
		`{{ index .Options .Profile.Location.Bucket | upper }}`:        {profile},
		`{{ "creds" | index .Secrets }}`:                               {secret},
		`{{ range $name, $value := .Secrets }}{{ $name }}{{ end }}`:    {secret},
		`{{ if .Secrets }}yes{{ end }}`:                                {secret},
		`{{ if .Options.x }}{{ .Secrets.creds }}{{ end }}`:             {secret},
		`{{ if .Options.x }}{{ else if .Secrets.creds }}{{ end }}`:     {secret},
		`{{ with .Object }}{{ .Secrets.creds }}{{ . }}{{ end }}`:       nil,
		`{{ with .Object }}{{ else }}{{ .Secrets.creds }}{{ end }}`:    {secret},
		`{{ with .Object }}{{ $.Secrets.creds }}{{ end }}`:             {secret},
		`{{ with .Object }}{{ $ }}{{ end }}`:                           everything,
		`{{ range .Options }}{{ . }}{{ end }}`:                         nil,
		`{{ with .Secrets }}{{ .other }}{{ end }}`:                     {secret},
		`{{ with . }}{{ .Secrets.other }}{{ end }}`:                    everything,
		`{{ $x := . }}{{ $x.Secrets.other }}`:                          everything,
		`{{ $x := .Secrets }}{{ $x.other }}`:                           {secret},
		`{{ toJson . }}`:                                               everything,
		`{{ toJson .Profile }}`:                                        {profile},
		`{{ .Profile.Location.Bucket }}`:                               {profile},
		`{{ define "x" }}{{ .Secrets.creds }}{{ $ }}{{ end }}`:         nil,
		`{{ define "x" }}{{ . }}{{ end }}{{ template "x" .Options }}`:  nil,
		`{{ define "x" }}{{ . }}{{ end }}{{ template "x" . }}`:         everything,
		`{{ block "x" $.Secrets.creds }}{{ . }}{{ end }}`:              {secret},
		`{{ .Phases.dump.Output.size }}`:                               nil,
		`{{ (index .Phases "dump").Output.Secrets }}`:                  nil,
		`{{ (index .Phases "dump").Secrets.creds }}`:                   {ofPhase},
		`{{ index .Phases.dump.Secrets "creds" }}`:                     {ofPhase},
		`{{ index .Phases.dump.Secrets "other" }}`:                     nil,
		`{{ .Phases.dump.ConfigMaps.creds }}`:                          {configMapsOfPhase},
		`{{ .Phases.dump }}`:                                           {ofPhase, configMapsOfPhase},
		`{{ with index .Phases "a-b" }}{{ .Secrets.x }}{{ end }}`:      {ofOtherPhase},
		`{{ range .Phases }}{{ .Output }}{{ end }}`:                    {ofPhase, configMapsOfPhase, ofOtherPhase},
		`{{ .DeferPhase.Secrets.x }}`:                                  {ofDeferPhase},
		`{{ .DeferPhase.Output.x }}`:                                   nil,
		`{{ .Secrets.creds`:                                            nil, // it cannot be rendered
		`{{ .Secrets.creds }}` + strings.Repeat("x", maxSource):        nil,
		strings.Repeat(`{{ if 1 }}`, maxNesting/2) + `{{ .Secrets.creds }}` + strings.Repeat(`{{ end }}`, maxNesting/2): {secret},
	} {
		if _, got := mentioned(t, source); !slices.Equal(got, want) {
			t.Errorf("%.200s\nmentions %q\nwant     %q", source, got, want)
		}
	}
	if _, got := mentioned(t, `{{ .Secrets.creds }}`, `{{ .Profile }}`); !slices.Equal(got, []string{secret, profile}) {
		t.Errorf("two templates mention %q", got)
	}
	inKey := &Mentions{}
	if err := inKey.AddArgs(NewBudget(t.Context()), Function{}, map[string]any{"{{ .Secrets.creds.Name }}": 1}); err != nil || !inKey.Has("Secrets", "creds") {
		t.Errorf("a key mentions no Secret, %v", err)
	}
	texts := &Mentions{}
	if err := texts.AddTexts(NewBudget(t.Context()), map[string]string{"a": `{{ .Profile }}`}); err != nil || !texts.Has("Profile") || texts.Has("Secrets") {
		t.Errorf("texts mention %+v, %v", texts, err)
	}
}

// To find what a template mentions takes as much as to parse it, which is paid.
func TestMentionsOfHostileTemplates(t *testing.T) {
	for does, bomb := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := new(Mentions).AddArgs(NewBudget(t.Context()), Function{}, map[string]any{"a": bomb.source}); err != nil {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if used, most := after.TotalAlloc-before.TotalAlloc, 64<<10+uint64(500*len(bomb.source)); used > most {
			t.Errorf("%s: %d KiB were allocated for a template of %d bytes", does, used>>10, len(bomb.source))
		}
	}
}

// onlyMentioned returns the Params without what the template does not mention.
func onlyMentioned(m *Mentions, p Params) Params {
	keep := func(secrets map[string]corev1.Secret, configMaps map[string]corev1.ConfigMap, at ...string) {
		maps.DeleteFunc(secrets, func(name string, _ corev1.Secret) bool { return !m.Has(append(at, "Secrets", name)...) })
		maps.DeleteFunc(configMaps, func(name string, _ corev1.ConfigMap) bool { return !m.Has(append(at, "ConfigMaps", name)...) })
	}
	keep(p.Secrets, p.ConfigMaps)
	for name, phase := range p.Phases {
		keep(phase.Secrets, phase.ConfigMaps, "Phases", name)
	}
	keep(p.DeferPhase.Secrets, p.DeferPhase.ConfigMaps, "DeferPhase")
	if !m.Has("Profile") {
		p.Profile = nil
	}
	return p
}

// wantMentionedIsEnough fails the test if a template gives another text when it gets only what it mentions.
func wantMentionedIsEnough(t *testing.T, source string) {
	t.Helper()
	m, paths := mentioned(t, source)
	got, err := render(t, onlyMentioned(m, testParams()), source)
	want, wantErr := render(t, testParams(), source)
	// A struct that is printed as a whole shows its pointers as addresses.
	if (err == nil) != (wantErr == nil) || got != want && !strings.Contains(want, "0x") {
		t.Errorf("%q gives\n%q, %v, with\n%q alone, and\n%q, %v, with everything", source, got, err, paths, want, wantErr)
	}
}

func FuzzMentionedIsEnough(f *testing.F) {
	f.Add(`{{ .Secrets.creds.Data.password | toString }}`)
	f.Add(`{{ define "x" }}{{ with .dump }}{{ .Secrets }}{{ end }}{{ end }}{{ template "x" $.Phases }}`)
	f.Fuzz(wantMentionedIsEnough)
}

// pathWriter writes random templates that reach what they print in every way.
type pathWriter struct {
	*rand.Rand
	variables int
}

func (w *pathWriter) pick(of ...string) string { return of[w.IntN(len(of))] }

func (w *pathWriter) value(depth int) string {
	value := w.pick(".", "$", ".Secrets", ".Phases", "$.Phases", ".Phases.dump", "$.Phases.dump.Secrets", ".Secrets.creds", ".ConfigMaps.conf.Data", ".Profile",
		"$.Profile.Location", "$.Secrets", ".Options", ".DeferPhase", "$.Object", ".dump", ".creds", ".Data", ".Secrets.creds.Data.password")
	if w.variables > 0 && w.IntN(3) == 0 {
		value = "$v" + string(rune('a'+w.IntN(w.variables))) + w.pick("", ".Secrets", ".creds", ".dump")
	}
	if depth < 3 {
		switch w.IntN(5) {
		case 0:
			return "(" + w.value(depth+1) + ")" + w.pick("", ".Secrets", ".creds", ".Phases", ".Data", ".dump")
		case 1:
			return "(index " + w.value(depth+1) + w.pick(` "creds"`, ` "dump"`, ` "Secrets"`, ` "dump" "creds"`, ` .Options.tag`) + ")"
		}
	}
	return value
}

func (w *pathWriter) statements(depth int) (text string) {
	for range 1 + w.IntN(3) {
		known := w.variables
		block := w.pick("with", "range", "if")
		switch choice := w.IntN(10); {
		case choice == 0 && w.variables < 20:
			text += "{{ $v" + string(rune('a'+w.variables)) + " := " + w.value(0) + " }}"
			w.variables++
			continue
		case choice == 1 && w.variables > 0:
			text += "{{ $v" + string(rune('a'+w.IntN(w.variables))) + " = " + w.value(0) + " }}"
		case choice < 5 && depth < 3:
			text += "{{ " + block + " " + w.value(0) + " }}" + w.statements(depth+1)
			w.variables = known
			if block != "range" {
				text += "{{ else " + block + " " + w.value(0) + " }}" + w.statements(depth+1)
				w.variables = known
			} else {
				text += w.pick("", "{{ break }}", "{{ continue }}")
			}
			text += "{{ else }}" + w.statements(depth+1) + "{{ end }}"
		case choice == 5:
			text += "{{ template " + w.pick(`"x"`, `"y"`, `"t"`) + " " + w.value(0) + " }}"
		default:
			text += "{{ " + w.value(0) + w.pick("", " | toJson", " | len") + " }}"
		}
		w.variables = known
	}
	return text
}

func TestRandomTemplatesGetWhatTheyMention(t *testing.T) {
	rendered := 0
	for seed := range uint64(3000) {
		w := &pathWriter{Rand: rand.New(rand.NewPCG(seed, 1))}
		source := `{{ define "x" }}` + w.statements(2) + `{{ end }}{{ define "y" }}` + w.pick(`{{ template "x" . }}`, `{{ template "x" .dump }}`) + `{{ end }}`
		w.variables = 0
		if main := w.statements(0); w.IntN(4) == 0 {
			source += `{{ define "t" }}` + main + `{{ end }}`
		} else {
			source += main
		}
		wantMentionedIsEnough(t, source)
		if got, err := render(t, testParams(), source); err == nil && got != "" {
			rendered++
		}
	}
	if rendered < 100 {
		t.Errorf("only %d templates could be rendered", rendered)
	}
	t.Logf("%d templates were rendered", rendered)
}
