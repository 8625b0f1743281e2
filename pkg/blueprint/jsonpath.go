// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"time"

	"k8s.io/client-go/util/jsonpath"
)

// maxPath is the longest JSONPath in a condition, in bytes.
const maxPath = 4096

// jsonPath is { $.json.path } in a condition. Variables of Go's templates are not: those have a name after the dollar.
var jsonPath = regexp.MustCompile(`\{\s*(\$[.\[][^{}]*)\}`)

// standIns are what may come of a JSONPath: a text that none of them makes a template has a mistake elsewhere.
var standIns = []string{"1", `"x"`, "x", ""}

// WaitLanguage is that of Wait: what { $.json.path } finds in the object is put into the text, which is then a Go template without
// data, with the functions that all templates have.
type WaitLanguage struct{}

var _ ConditionLanguage = WaitLanguage{}

func waitEngine(b *Budget, now func() time.Time) engine {
	return newEngine(b, "zero", func() template.FuncMap { return functionsOf(now().UTC(), b) })
}

// Check implements ConditionLanguage.
func (WaitLanguage) Check(name, condition string) error {
	e := waitEngine(NewBudget(context.Background()), func() time.Time { return time.Time{} })
	var first error
	for _, standIn := range standIns {
		text, err := replacePaths(condition, func(path string) (string, error) {
			_, err := parsePath(path)
			return standIn, err
		})
		if err == nil {
			err = e.check(name, text)
		} else {
			err = renderError(name, err)
		}
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Evaluator implements ConditionLanguage.
func (WaitLanguage) Evaluator(b *Budget, now func() time.Time) Evaluator {
	return waitEvaluator{waitEngine(b, now)}
}

type waitEvaluator struct{ engine engine }

// Evaluate implements Evaluator. What the paths find is part of the template, and no longer than one.
func (v waitEvaluator) Evaluate(name, condition string, object map[string]any) (string, error) {
	b := v.engine.budget
	t, err := b.tally(reflect.ValueOf(object))
	if err != nil {
		return "", renderError(name, err)
	}
	nodes, depth := measure(object)
	left := maxSource
	text, err := replacePaths(condition, func(path string) (string, error) {
		if err := b.pay(pathCost(path, float64(nodes)) * pathWays(path, depth)); err != nil {
			return "", err
		}
		if err := b.pay(40*t.nodes + 2*t.bytes); err != nil {
			return "", err
		}
		found, err := find(path, object, left)
		left -= len(found)
		return found, err
	})
	if err != nil {
		return "", renderError(name, err)
	}
	return v.engine.execute(name, text, nil)
}

// replacePaths in the text, each by what is returned for it. What is put in is not looked at again.
func replacePaths(text string, replacement func(path string) (string, error)) (string, error) {
	var failure error
	replaced := jsonPath.ReplaceAllStringFunc(text, func(found string) string {
		if failure != nil {
			return ""
		}
		path := strings.TrimSpace(jsonPath.FindStringSubmatch(found)[1])
		value, err := replacement(path)
		if err != nil {
			failure = fmt.Errorf("{ %s }: %w", shorten(path, maxName), err)
		}
		return value
	})
	return replaced, failure
}

func parsePath(path string) (parsed *jsonpath.JSONPath, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("the JSONPath cannot be read: %v", panicked)
		}
	}()
	if len(path) > maxPath {
		return nil, fmt.Errorf("the JSONPath is longer than %d bytes", maxPath)
	}
	parsed = jsonpath.New("condition")
	return parsed, parsed.Parse("{" + path + "}")
}

// find the text of what a JSONPath leads to, of a limited number of bytes. That it leads nowhere is an error.
func find(path string, object map[string]any, most int) (text string, err error) {
	parsed, err := parsePath(path)
	if err != nil {
		return "", err
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			text, err = "", fmt.Errorf("the JSONPath cannot be followed: %v", panicked)
		}
	}()
	out := &limitedBuilder{left: most}
	err = parsed.Execute(out, object)
	return string(out.text), err
}

// pathCost is what each way of a JSONPath through an object of that number of values takes at most. Filters look at what is below.
func pathCost(path string, nodes float64) float64 {
	return 1000 + 40*float64(len(path)) + 40*(nodes+1)*float64(1+strings.Count(path, "?"))
}

// pathWays is how many ways a JSONPath can take: each comma may name the same thing once more, and each .. begins again at every depth.
func pathWays(path string, depth int) float64 {
	return math.Pow(2, float64(strings.Count(path, ","))) * math.Pow(float64(depth+1), float64(strings.Count(path, "..")))
}

// measure how many values are in a value, and how deep they go.
func measure(value any) (nodes, depth int) {
	within := func(child any) {
		n, d := measure(child)
		nodes, depth = nodes+n, max(depth, d+1)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			within(child)
		}
	case []any:
		for _, child := range value {
			within(child)
		}
	}
	return nodes + 1, depth
}
