// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"
	"slices"
	"testing"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
)

func TestEveryFunctionOfSprigIsJudgedOnce(t *testing.T) {
	judged := slices.Clone(allowed)
	for name := range denied {
		judged = append(judged, name)
	}
	for _, ours := range []template.FuncMap{replaced(time.Time{}), regexes(NewBudget(t.Context()))} {
		for name := range ours {
			judged = append(judged, name)
		}
	}
	theirs := sprig.GenericFuncMap()
	slices.Sort(judged)
	for i, name := range judged {
		if i > 0 && judged[i-1] == name {
			t.Errorf("%s is judged twice", name)
		}
		if _, found := theirs[name]; !found {
			t.Errorf("sprig has no %s any more", name)
		}
		delete(theirs, name)
	}
	for name := range theirs {
		t.Errorf("sprig's %s is in no list: read what it does, then list it as allowed, denied or replaced", name)
	}
}

func TestEveryFunctionHasAPriceOrPaysByItself(t *testing.T) {
	functions := functionsOf(time.Time{}, NewBudget(t.Context()))
	maps.Copy(functions, waitV2Engine(NewBudget(t.Context())).parser.functions())
	for name := range prices {
		if _, found := functions[name]; !found {
			t.Errorf("there is no function %s", name)
		}
	}
	for _, name := range append(slices.Clone(allowed), slices.Collect(maps.Keys(replaced(time.Time{})))...) {
		if _, found := functions[name]; !found {
			t.Errorf("%s has no price", name)
		}
	}
}

func TestNoTemplateReadsTheEnvironment(t *testing.T) {
	t.Setenv("CANARY", canary)
	for _, source := range []string{`{{ env "CANARY" }}`, `{{ expandenv "$CANARY" }}`, `{{ getHostByName "localhost" }}`} {
		if got, err := render(t, testParams(), source); err == nil {
			t.Errorf("%s gives %q", source, got)
		}
	}
}

func TestTheSameParamsGiveTheSameText(t *testing.T) {
	source := `{{ now }} {{ ago "x" }} {{ durationRound (now) }} {{ keys .Object .PodOverride }} {{ values .Object }} {{ .Object }} {{ toJson .Phases }}` +
		`{{ htmlDate now }}{{ htmlDateInZone now "UTC" }}{{ date "15:04 MST" now }}{{ toDate "15:04 -0700" "01:02 +0500" }}`
	first, err := render(t, testParams(), source)
	if err != nil {
		t.Fatal(err)
	}
	// The zone of the machine is not that of the templates.
	local := time.Local
	time.Local = time.FixedZone("X", 5*3600)
	defer func() { time.Local = local }()
	for range 20 {
		if got, err := render(t, testParams(), source); got != first || err != nil {
			t.Fatalf("%q, then %q, %v", first, got, err)
		}
	}
	wantContains(t, first, "02:03 UTC", "2026-08-01")
}
