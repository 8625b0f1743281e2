// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strconv"
	"strings"
	"testing"
)

// templateBombsOfEachKind is how many ActionSets use each template bomb.
const templateBombsOfEachKind = 20

const (
	tooExpensive = "TemplateTooExpensive: the template takes too many steps, or makes values that are too large"
	nestedOften  = `{{ $x := list 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}`
)

// templateBombs are templates that would use all of the memory or of a CPU, each with part of the error that rendering it returns.
var templateBombs = map[string]struct{ template, why string }{
	"regex":       {`{{ regexMatch "(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?q?r?s?t?u?v?w?x?y?z?){1000}" "aaaa" }}`, "TemplateTooExpensive: the regular expression"},
	"classes":     {`{{ regexMatch (print "(?i)" (repeat 500 "\\pL")) "a" }}`, tooExpensive},
	"lookahead":   {`{{ regexFindAll "a.*b|a" (repeat 90000 "a") -1 }}`, tooExpensive},
	"prettyjson":  {nestedOften + `{{ toPrettyJson $x }}`, tooExpensive},
	"widths":      {`{{ printf "%1000000d" (until 1000) }}`, tooExpensive},
	"repeat":      {`{{ repeat 1000000000 "x" }}`, tooExpensive},
	"kept":        {`{{ $d := dict }}{{ range $i := until 100000 }}{{ $_ := set $d (print $i) (repeat 100000 "x") }}{{ end }}`, tooExpensive},
	"untilstep":   {`{{ untilStep 0 9223372036854775807 4611686018427387904 }}`, tooExpensive},
	"doubling":    {`{{ $x := "x" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}`, tooExpensive},
	"replace":     {`{{ $x := repeat 100000 "x" }}{{ replace "x" $x $x }}`, tooExpensive},
	"indent":      {`{{ indent 100000 (repeat 100000 "\n") }}`, tooExpensive},
	"lists":       {`{{ $x := list 1 }}{{ range 100 }}{{ $x = concat $x $x }}{{ end }}`, tooExpensive},
	"fromjson":    {`{{ $x := print "[" (repeat 90000 "{},") "{}]" }}{{ range 1000 }}{{ $y := fromJson $x }}{{ end }}`, tooExpensive},
	"compare":     {`{{ $x := repeat 1000000 "x" }}{{ $y := printf "%s" $x }}{{ range 1000000000 }}{{ $z := eq $x $y }}{{ end }}`, tooExpensive},
	"method":      {`{{ $x := repeat 1000000 "x" }}{{ $t := now }}{{ range 1000000000 }}{{ $z := $t.Format $x }}{{ end }}`, tooExpensive},
	"loop":        {`{{ range 1000000000000 }}{{ end }}`, tooExpensive},
	"recursion":   {`{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`, "templates call each other so deeply"},
	"endless":     {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ int $x }}`, "contains itself"},
	"output":      {`{{ $x := repeat 100000 "x" }}{{ range 100 }}{{ $x }}{{ end }}`, "the rendered text is longer"},
	"parentheses": {`{{ ` + strings.Repeat("(", 5000) + `1` + strings.Repeat(")", 5000) + ` }}`, "blocks or parentheses are nested"},
}

// The ActionSet controller, with the memory limit of the manifests, survives templates that need more memory or endless time. It still
// stops when it gets a signal.
func TestActionSetTemplateMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	p := e.startLimitedActions()
	sets := map[string]string{} // the error of each
	create := func(name, phases, why string) {
		e.blueprint(name, "go:\n"+phases)
		for i := range templateBombsOfEachKind {
			set := name + "-" + strconv.Itoa(i)
			e.actionSet(set, strings.ReplaceAll(goOnNamespace, "$ME", name))
			sets[set] = why
		}
	}
	for kind, bomb := range templateBombs {
		create(kind, "  phases: [{func: KubeTask, name: one, args: {namespace: $NS, image: none, command: [sh, '"+bomb.template+"']}}]\n", bomb.why)
	}
	create("in-objects", "  phases: [{func: KubeTask, name: one, args: {image: none, command: [sh]}, objects: {s: {kind: Secret, name: '"+templateBombs["kept"].template+"'}}}]\n", tooExpensive)
	create("in-artifacts", "  outputArtifacts: {a: {kopiaSnapshot: '"+templateBombs["kept"].template+"'}}\n  phases: []\n", tooExpensive)
	for set, why := range sets {
		p.mustRun(t)
		live := e.awaitSet(set, ended)
		if message := live.Status.Error.Message; !strings.Contains(message, "Failed to render template: ") || !strings.Contains(message, why) {
			t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set, message, why)
		}
		p.mustRun(t)
	}

	e.startRun("honest", "  phases: ["+recordPhase("one", "", map[string]string{"all": `printf "%d bytes" (len (toJson .))`})+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")

	// The process also stops while it renders a template bomb.
	e.actionSet("last", strings.ReplaceAll(goOnNamespace, "$ME", "compare"))
	p.mustHaveFit(t)
}
