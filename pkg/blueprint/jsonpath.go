// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
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

func waitEngine(now time.Time, b *budget) engine {
	return engine{functions: functionsOf(now.UTC(), b), missingKey: "zero", textLimit: maxOutput}
}

// Check implements ConditionLanguage.
func (WaitLanguage) Check(name, condition string) error {
	e := waitEngine(time.Time{}, &budget{work: maxWork})
	var first error
	for _, standIn := range standIns {
		text, err := replacePaths(condition, func(path string) (string, error) {
			_, err := parsePath(path)
			return standIn, err
		})
		if err == nil {
			err = e.check(name, text)
		} else {
			_, err = outcomeOf(name, "", err, nil)
		}
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Evaluate implements ConditionLanguage.
func (WaitLanguage) Evaluate(name, condition string, object map[string]any, now time.Time) (string, error) {
	b := &budget{work: maxWork}
	nodes, depth := measure(object)
	text, err := replacePaths(condition, func(path string) (string, error) {
		if depth > maxDepth {
			return "", errDepth
		}
		if err := b.pay(pathCost(path, nodes, depth)); err != nil {
			return "", err
		}
		return find(path, object)
	})
	if err != nil {
		return outcomeOf(name, "", err, nil)
	}
	return waitEngine(now, b).execute(name, text, nil)
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
			failure = fmt.Errorf("{ %s }: %w", path, err)
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

// find the text of what a JSONPath leads to. That it leads nowhere is an error.
func find(path string, object map[string]any) (text string, err error) {
	parsed, err := parsePath(path)
	if err != nil {
		return "", err
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			text, err = "", fmt.Errorf("the JSONPath cannot be followed: %v", panicked)
		}
	}()
	out := &limitedBuilder{left: maxOutput}
	err = parsed.Execute(out, object)
	return string(out.text), err
}

// pathCost is the most that a JSONPath can take of an object: each comma may name the same thing once more, and each .. begins anew
// at every depth. Filters look at what is below.
func pathCost(path string, nodes, depth int) int {
	cost := float64(nodes+1) * float64(1+strings.Count(path, "?"))
	for range strings.Count(path, ",") {
		cost *= 2
	}
	for range strings.Count(path, "..") {
		cost *= float64(depth + 1)
	}
	return int(min(cost, maxWork+1))
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
