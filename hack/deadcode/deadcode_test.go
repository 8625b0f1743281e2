// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestPlantedFunctionIsFound(t *testing.T) {
	const name = "hack/deadcode/testdata/planted.Forgotten"
	dead, err := find("./testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	if len(dead) != 1 || !strings.HasSuffix(dead[name], "main.go:11") {
		t.Errorf("found %v, want %s alone", dead, name)
	}
	if wrong := judge(dead, "# allowed\n"); len(wrong) != 1 || !strings.Contains(wrong[0], name+" is never called") {
		t.Errorf("judged %q", wrong)
	}
	if wrong := judge(dead, name+" # for a reason\n"); len(wrong) > 0 {
		t.Errorf("although it is allowed: %q", wrong)
	}
	if wrong := judge(nil, name+"\n"); len(wrong) != 1 || !strings.Contains(wrong[0], "take it off the list") {
		t.Errorf("allowed, and used: %q", wrong)
	}
}

func TestOnlyTestsCallWhatIsForTests(t *testing.T) {
	dead := merge(functions{"pkg/testing/proxy.Start": "a.go:1", "pkg/hook.Start": "b.go:1"}, functions{"pkg/testing/proxy.Stop": "a.go:2"})
	if got, want := judge(dead, ""), []string{"b.go:1: pkg/hook.Start is never called", "a.go:2: pkg/testing/proxy.Stop is never called"}; !slices.Equal(got, want) {
		t.Errorf("judged %q, want %q", got, want)
	}
}

func TestGeneratedCodeIsNotJudged(t *testing.T) {
	dead, err := parse([]byte(`[{"Path": "millwright.dev/pkg/generated/listers/apps/v1", "Funcs": [{"Name": "A"}]},
		{"Path": "millwright.dev/pkg/hook", "Funcs": [{"Name": "B", "Generated": true}]}]`))
	if err != nil || len(dead) > 0 {
		t.Errorf("found %v, error %v", dead, err)
	}
	if _, err := parse([]byte("usage")); err == nil {
		t.Error("what is no JSON was accepted")
	}
}
