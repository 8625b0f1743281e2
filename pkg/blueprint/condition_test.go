// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"
	"time"
)

// waitedFor is an object that conditions are about.
func waitedFor() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "pg", "labels": map[string]any{"a.b/c": "v"}},
		"spec":     map[string]any{"replicas": int64(3), "paused": false},
		"status": map[string]any{
			"phase": "Running", "readyReplicas": int64(3), "evil": `{{ env "CANARY" }}`,
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Progressing", "status": "False"},
			},
		},
		"data": map[string]any{"key": "dmFsdWU="},
	}
}

var conditionTime = time.Date(2026, 8, 1, 2, 3, 4, 0, time.UTC)

func atConditionTime() time.Time { return conditionTime }

func TestConditionsOfWaitSeeWhatTheirPathsFind(t *testing.T) {
	for condition, want := range map[string]string{
		`{{ if (eq "{ $.status.phase }" "Running")}}true{{else}}false{{end}}`:                    "true",
		`{{ if (eq "{ $.status.phase }" "Pending")}}true{{else}}false{{end}}`:                    "false",
		`{{ if eq {$.spec.replicas} { $.status.readyReplicas } }}true{{ end }}`:                  "true",
		`{{ { $.spec.paused } | not }}`:                                                          "true",
		`{{ $x := "{ $.status.conditions[?(@.type=="Available")].status }" }}{{ eq $x "True" }}`: "true",
		`{{ eq "{ $.status.conditions[*].type }" "Available Progressing" }}`:                     "true",
		`{{ eq "{ $['metadata']['name'] }" "pg" }}`:                                              "true",
		`{{ eq "{ $..type }" "Available Progressing" }}`:                                         "true",
		`{{ "{ $.status.phase }" | lower | hasPrefix "run" }}`:                                   "true",
		`true`:                    "true",
		`{ $.status.phase }`:      "Running",
		`{{ .nothing }}`:          "<no value>",
		`{{ now | date "2006" }}`: "2026",
		`{{ range $i, $c := splitList " " "{ $.status.conditions[*].status }" }}{{ $i }}{{ $c }}{{ end }}`: "0True1False",
	} {
		if err := (WaitLanguage{}).Check("c", condition); err != nil {
			t.Errorf("%s is refused: %v", condition, err)
		}
		got, err := WaitLanguage{}.Evaluator(NewBudget(t.Context()), atConditionTime).Evaluate("c", condition, waitedFor())
		if err != nil || got != want {
			t.Errorf("%s gives %q, %v; want %q", condition, got, err, want)
		}
	}
}

func TestConditionsOfWaitV2AreTemplatesOnTheObject(t *testing.T) {
	for condition, want := range map[string]string{
		`{{ if (eq .status.phase "Running")}}true{{end}}`: "true",
		`{{ .status.missing }}`:                           "<no value>",
		`{{ eq .spec.replicas .status.readyReplicas }}`:   "true",
		`{{ ge .status.readyReplicas 3.0 }}`:              "true",
		`{{ printf "%T" .spec.replicas }}`:                "float64",
		`{{ exists . "status" "conditions" 1 "type" }}`:   "true",
		`{{ exists . "status" "conditions" 2 }}`:          "false",
		`{{ exists . "status" "conditions" -1 }}`:         "false",
		`{{ exists . "status" "phase" "x" }}`:             "false",
		`{{ exists . "nothing" "at" "all" }}`:             "false",
		`{{ base64decode .data.key }}`:                    "value",
		`{{ range .status.conditions }}{{ if eq .type "Available" }}{{ eq .status "True" }}{{ end }}{{ end }}`: "true",
		`{{ index .metadata.labels "a.b/c" }}`: "v",
	} {
		if err := (WaitV2Language{}).Check("c", condition); err != nil {
			t.Errorf("%s is refused: %v", condition, err)
		}
		got, err := WaitV2Language{}.Evaluator(NewBudget(t.Context()), atConditionTime).Evaluate("c", condition, waitedFor())
		if err != nil || got != want {
			t.Errorf("%s gives %q, %v; want %q", condition, got, err, want)
		}
	}
}

func TestInvalidConditionIsRefused(t *testing.T) {
	for _, test := range []struct {
		language        ConditionLanguage
		condition, want string
	}{
		{WaitLanguage{}, `{{ if }}`, "missing value for if"},
		{WaitLanguage{}, `{{ if eq "{ $.status.phase }" "Running" }}true`, "unexpected EOF"},
		{WaitLanguage{}, `{{ nosuch "{ $.status.phase }" }}`, `there is no function "nosuch"`},
		{WaitLanguage{}, `{{ eq "{ $.status[ }" "x" }}`, "{ $.status[ }: unterminated array"},
		{WaitLanguage{}, `{{ eq "{ $.a` + strings.Repeat("a", maxPath) + ` }" "x" }}`, "longer than"},
		{WaitV2Language{}, `{{ if }}`, "missing value for if"},
		{WaitV2Language{}, `{{ upper .status.phase }}`, `there is no function "upper"`},
		{WaitV2Language{}, strings.Repeat("x", maxSource+1), "longer than"},
	} {
		err := test.language.Check("conditions.anyOf[0]", test.condition)
		if err == nil {
			t.Errorf("%.80s is not refused", test.condition)
			continue
		}
		wantContains(t, err.Error(), test.want, "conditions.anyOf[0]")
	}
}

func TestConditionErrors(t *testing.T) {
	deep := any("end")
	for range 5000 {
		deep = map[string]any{"a": deep}
	}
	for _, test := range []struct {
		language        ConditionLanguage
		condition, want string
	}{
		{WaitLanguage{}, `{{ eq "{ $.status.missing }" "x" }}`, "{ $.status.missing }: missing is not found"},
		{WaitLanguage{}, `{{ env "HOME" }}`, "a Blueprint cannot call it"},
		{WaitLanguage{}, `{ $.status.evil }`, "a Blueprint cannot call it"},
		{WaitLanguage{}, `{{ range until 1000000000 }}{{ end }}`, errWork.Error()},
		{WaitLanguage{}, `{ $` + strings.Repeat("[*,*]", 40) + ` }`, errWork.Error()},
		{WaitLanguage{}, `{ $` + strings.Repeat("..a", 40) + ` }`, errWork.Error()},
		{WaitLanguage{}, `{ $.deep..a }`, errDepth.Error()},
		{WaitV2Language{}, `{{ range 1000000000 }}{{ end }}`, errWork.Error()},
		{WaitV2Language{}, `{{ printf "%1000000000d" 1 }}{{ printf "%200000d" 1 }}{{ printf "%900000d" 1 }}`, errOutput.Error()},
		{WaitV2Language{}, `{{ lt .status.phase 3.0 }}`, "incompatible types for comparison"},
		{WaitV2Language{}, `{{ base64decode "%" }}`, "base64 decode failed"},
		{WaitV2Language{}, `{{ .status.phase.x }}`, "can't evaluate field x"},
	} {
		object := waitedFor()
		if test.want == errDepth.Error() {
			object["deep"] = deep
		}
		got, err := test.language.Evaluator(NewBudget(t.Context()), atConditionTime).Evaluate("conditions.anyOf[0]", test.condition, object)
		if err == nil {
			t.Errorf("%.80s gives %.80q", test.condition, got)
			continue
		}
		wantContains(t, err.Error(), test.want, "conditions.anyOf[0]")
	}
}

func TestWhatAPathFindsIsNotSearchedForPaths(t *testing.T) {
	object := map[string]any{"a": "{ $.b }", "b": "secret"}
	got, err := WaitLanguage{}.Evaluator(NewBudget(t.Context()), atConditionTime).Evaluate("c", `{ $.a }`, object)
	if err != nil || got != "{ $.b }" {
		t.Errorf("it gives %q, %v", got, err)
	}
}

func FuzzCondition(f *testing.F) {
	for _, seed := range []string{
		`{{ if (eq "{ $.status.phase }" "Running")}}true{{end}}`, `{ $..* }`, `{ $.status.conditions[0:2:1] }`, `{ $['a','a'] }`,
		`{ $.status.conditions[?(@.type=="Available")].status }`, `{ $.status.evil }`, `{{ exists . "status" 1 nil }}`, `{ $[-1] }`,
		`{ $.status.conditions[::0] }`, `{{ range 9 }}{{ . }}{{ end }}`, `{{ base64decode .data.key }}`, `{ $.status.conditions[99999999999999999999] }`,
		`{ $[?(@[?(@[?(@)])])] }`, `{ $..[?(@.a==@.b)] }`, `{{ index .status.conditions 7 }}`, `{ $.status.conditions[?(@.type>1)] }`,
	} {
		f.Add(seed)
	}
	f.Setenv("CANARY", canary)
	f.Fuzz(func(t *testing.T, condition string) {
		for _, language := range []ConditionLanguage{WaitLanguage{}, WaitV2Language{}} {
			refused := language.Check("c", condition)
			got, err := language.Evaluator(NewBudget(t.Context()), atConditionTime).Evaluate("c", condition, waitedFor())
			if strings.Contains(got, canary) || err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%T: %q reads the environment", language, condition)
			}
			if refused != nil && err == nil {
				t.Errorf("%T: %q is refused (%v), but gives %q", language, condition, refused, got)
			}
		}
	})
}
