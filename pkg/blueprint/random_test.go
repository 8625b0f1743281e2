// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// templateWriter writes random templates of all functions with arguments that are as bad as can be.
type templateWriter struct {
	*rand.Rand
	functions []string
	out       strings.Builder
	variables int
}

// worst are bad arguments by what a function takes.
var worst = map[reflect.Kind][]string{
	reflect.String: {
		`""`, `"x"`, `"\n"`, `"%1000000d"`, `"%[1]*[2]d%s%v%#v"`, `"(a?b?c?){1000}"`, `"a.*b|a"`, `"(?i)\\pL+"`, `"2006-01-02"`, `"-1h"`, `">=1.2 || <3"`,
		`"eyJhIjoxfQ=="`, `"[[[[1]]],{}]"`, `"1e308"`, `"99999999999999999999"`, `"é\u00ff\U0001f600"`, `"$1$1$1"`,
		`(repeat 1000 "ab ")`, `(repeat 100000 "<")`, `(repeat 30000 "[],")`, `(repeat 50000 "é")`,
	},
	reflect.Int: {
		`0`, `1`, `-1`, `2`, `7`, `1000`, `1000000`, `1000000000000`, `-1000000000`, `9223372036854775807`, `-9223372036854775808`,
	},
	reflect.Map: {
		`(dict)`, `(dict "a" (dict "b" 1))`, `$.Object`, `$.Phases.dump.Output`, `$m`, `$endless`,
	},
	reflect.Slice: {
		`(list)`, `(list 1 "a" (list 2))`, `(until 1000)`, `(until 10000)`, `(splitList "" (repeat 5000 "a"))`, `$.StatefulSet.Pods`, `$deep`,
	},
	reflect.Struct:  {`(now)`},
	reflect.Bool:    {`true`},
	reflect.Float64: {`1e300`, `0.5`, `0`},
	reflect.Func:    {`nil`, `.`, `$`, `$.Secrets`, `$.Secrets.creds`, `$.Phases`, `$.Profile`, `$.StatefulSet`, `$.Options`, `$.Time`, `(semver "1.2.3")`, `1e300`, `0.1`},
}

// worstValues are all of them.
var worstValues = slices.Concat(slices.Collect(maps.Values(worst))...)

// variables are those of the arguments above, with the actions that set them: a map that contains itself, a map of many entries, and a list of
// deep lists.
var variables = [][2]string{
	{"$endless", `{{ $endless := dict }}{{ $_ := set $endless "x" $endless }}`},
	{"$m", `{{ $m := dict }}{{ range until 1000 }}{{ $_ := set $m (print .) (dict "a" 1) }}{{ end }}`},
	{"$deep", `{{ $deep := list 1 }}{{ range 40 }}{{ $deep = list $deep }}{{ end }}{{ $deep = list $deep $deep $deep $deep $deep $deep $deep $deep }}`},
}

// withVariables returns the template with the variables that it uses in front of it: to set them takes longer than most templates do.
func withVariables(source string) string {
	front := ""
	for _, variable := range variables {
		if strings.Contains(source, variable[0]) {
			front += variable[1]
		}
	}
	return front + source
}

func (w *templateWriter) value() string {
	if w.variables > 0 && w.IntN(2) == 0 {
		return fmt.Sprintf("$v%d", w.IntN(w.variables))
	}
	return worstValues[w.IntN(len(worstValues))]
}

func (w *templateWriter) call() string {
	text := w.functions[w.IntN(len(w.functions))]
	for range w.IntN(4) {
		text += " " + w.value()
	}
	if w.IntN(20) == 0 {
		text += strings.Repeat(" "+w.value(), 200)
	}
	return text
}

func (w *templateWriter) statements(depth int) {
	for range 1 + w.IntN(5) {
		switch choice := w.IntN(8); {
		case choice < 3:
			// Where a call fails, nothing comes after it: most are tried apart.
			fmt.Fprintf(&w.out, "{{ $v%d := %s }}", w.variables, w.value())
			w.variables++
		case choice < 5 && w.variables > 0:
			fmt.Fprintf(&w.out, "{{ $v%d = %s }}", w.IntN(w.variables), w.call())
		case choice == 5 && depth < 3:
			known := w.variables
			fmt.Fprintf(&w.out, "{{ range %s }}", w.value())
			w.statements(depth + 1)
			w.out.WriteString("{{ end }}")
			w.variables = known
		case choice == 6 && depth < 3:
			known := w.variables
			fmt.Fprintf(&w.out, "{{ if %s }}", w.call())
			w.statements(depth + 1)
			w.out.WriteString("{{ end }}")
			w.variables = known
		default:
			fmt.Fprintf(&w.out, "{{ %s }}", w.call())
		}
	}
}

func randomTemplate(seed uint64) string {
	w := &templateWriter{Rand: rand.New(rand.NewPCG(seed, 1)), functions: slices.Sorted(maps.Keys(functionsOf(time.Time{}, NewBudget(context.Background()))))}
	w.functions = append(w.functions, "len", "not", "and", "or", "call", "slice")
	w.functions = slices.DeleteFunc(w.functions, func(name string) bool { return denied[name] != "" })
	w.statements(0)
	return withVariables(w.out.String())
}

// A function whose price is too low is found by what it allocates: what a Budget pays for is bounded.
func FuzzNoTemplateTakesMoreThanItPays(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { _ = renderBomb(t, randomTemplate(seed), 8) })
}

// Each function by itself, with arguments that it takes, as bad as can be, in a loop for as long as the Budget lasts. What it gives is kept.
func TestEachFunctionPaysForTheWorstArguments(t *testing.T) {
	functions := functionsOf(time.Time{}, NewBudget(t.Context()))
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if denied[name] != "" || strings.HasPrefix(name, "_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			of := reflect.TypeOf(functions[name])
			for range 4 {
				arguments, call := "", name
				for i := range of.NumIn() {
					takes, times := of.In(i), 1
					if of.IsVariadic() && i == of.NumIn()-1 {
						takes, times = takes.Elem(), random.IntN(4)
					}
					values := worst[takes.Kind()]
					if takes.Kind() == reflect.Interface {
						values = worstValues
					}
					for n := range times {
						value := values[random.IntN(len(values))]
						if value != "nil" {
							arguments += fmt.Sprintf("{{ $a%d_%d := %s }}", i, n, value)
							value = fmt.Sprintf("$a%d_%d", i, n)
						}
						call += " " + value
					}
				}
				_ = renderBomb(t, withVariables(arguments+`{{ $kept := dict }}{{ range $i := until 100000 }}{{ $_ := set $kept (print $i) (`+call+`) }}{{ end }}`), 8)
			}
		})
	}
}
