// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"text/template"
	"time"
)

// ConditionLanguage is how the conditions of a function are written. Like all templates they read nothing but what they are given,
// end, and do not panic. Errors are *RenderErrors about the argument of the name that is given.
type ConditionLanguage interface {
	// Check the syntax, as far as that is possible without an object.
	Check(name, condition string) error
	// Evaluator returns an Evaluator whose evaluations are paid from the Budget. All templates get the time at which the first one is rendered.
	Evaluator(b *Budget, now func() time.Time) Evaluator
}

// Evaluator evaluates conditions. It is not safe for concurrent use.
type Evaluator interface {
	// Evaluate the condition on an object: it holds where the text, without blanks around it, is true.
	Evaluate(name, condition string, object map[string]any) (string, error)
}

// WaitV2Language is that of WaitV2: a Go template on the object, as in kubectl get -o go-template. Numbers are floating-point ones
// there, and what is missing is the text <no value>.
type WaitV2Language struct{}

var _ ConditionLanguage = WaitV2Language{}

func waitV2Engine(b *Budget) engine {
	return newEngine(b, "default", func() template.FuncMap {
		return charged(template.FuncMap{"exists": exists, "base64decode": base64decode}, b)
	})
}

// Check implements ConditionLanguage.
func (WaitV2Language) Check(name, condition string) error {
	return waitV2Engine(NewBudget(context.Background())).check(name, condition)
}

// Evaluator implements ConditionLanguage.
func (WaitV2Language) Evaluator(b *Budget, _ func() time.Time) Evaluator {
	return waitV2Evaluator{waitV2Engine(b)}
}

type waitV2Evaluator struct{ engine engine }

// Evaluate implements Evaluator.
func (v waitV2Evaluator) Evaluate(name, condition string, object map[string]any) (string, error) {
	if isPlain(condition) {
		return v.engine.execute(name, condition, nil)
	}
	b := v.engine.budget
	t, err := b.tally(reflect.ValueOf(object))
	if err == nil {
		err = b.pay(150*t.nodes + 10*t.bytes)
	}
	if err != nil {
		return "", renderError(name, err)
	}
	content, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("reading the object: %w", err)
	}
	var data any
	if err := json.Unmarshal(content, &data); err != nil {
		return "", fmt.Errorf("reading the object: %w", err)
	}
	return v.engine.execute(name, condition, data)
}

// exists reports whether there is something at the end of the path: keys of maps, and indexes of lists.
func exists(item any, path ...any) bool {
	value := inside(reflect.ValueOf(item))
	for _, step := range path {
		index := inside(reflect.ValueOf(step))
		switch {
		case value.Kind() == reflect.Map && index.IsValid() && index.Type().AssignableTo(value.Type().Key()):
			value = value.MapIndex(index)
		case value.Kind() == reflect.Slice && index.CanInt() && index.Int() >= 0 && index.Int() < int64(value.Len()):
			value = value.Index(int(index.Int()))
		default:
			return false
		}
		value = inside(value)
	}
	return value.IsValid()
}

func base64decode(text string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("base64 decode failed: %w", err)
	}
	return string(decoded), nil
}
