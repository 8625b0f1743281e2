// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"
)

const canary = "the-operators-own-secret"

func FuzzNoTemplatePanicsOrReadsTheEnvironment(f *testing.F) {
	for _, seed := range []string{
		`{{ .Options.tag }}`, `{{ env "CANARY" }}`, `{{ range 9 }}{{ . }}{{ else }}x{{ end }}`, `{{ toJson .Profile }}`,
		`{{ define "x" }}{{ . }}{{ end }}{{ template "x" . }}`, `{{ $x := dict "a" (list 1 2) }}{{ set $x "b" $x }}`,
		`{{ with .Phases.dump }}{{ .Output.size | int | add 1 }}{{ end }}`, `{{ printf "%[2]*d" 1 2 }}`, `{{ slice "abc" 5 2 }}`,
		`{{ index .StatefulSet.Pods 7 }}`, `{{ call .Time }}`, `{{ chunk 0 (list 1) }}`, `{{ .Secrets.creds.Data.password | toString | b64enc }}`,
		`{{ regexReplaceAll "(a)" "banana" "$1$1" }}`, `{{ .Profile.Credential.Secret.MarshalTo nil }}`, `{{ block "a" . }}{{ end }}`,
	} {
		f.Add(seed)
	}
	f.Setenv("CANARY", canary)
	f.Fuzz(func(t *testing.T, source string) {
		got, err := render(t, testParams(), source)
		if strings.Contains(got, canary) {
			t.Errorf("%q reads the environment", source)
		}
		again, errAgain := render(t, testParams(), source)
		// A struct that is printed as a whole shows its pointers as addresses.
		if (err == nil) != (errAgain == nil) || got != again && !strings.Contains(got, "0x") {
			t.Errorf("%q gives %q, %v, then %q, %v", source, got, err, again, errAgain)
		}
	})
}

func FuzzOutputIsTheSameInWhateverPiecesItComes(f *testing.F) {
	f.Add("a\n###Phase-output###: {\"key\":\"k\",\"value\":\"v\"}\nb", 3)
	f.Add("###Phase-output###:{\"key\":1}", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 {
			return
		}
		whole, pieces := &capture{}, &capture{}
		whole.feed(text, len(text)+1)
		pieces.feed(text, size)
		if whole.String() != pieces.String() {
			t.Errorf("%s\nin pieces of %d: %s", whole, size, pieces)
		}
	})
}
