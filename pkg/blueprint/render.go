// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
)

// templateName is how the engine calls every template. Errors say the argument's name instead.
const templateName = "t"

// Renderer renders the templates of one action with the same Params. It is not for several goroutines at once.
type Renderer struct {
	params    Params
	functions template.FuncMap
	budget    *budget
	textLeft  int
}

// NewRenderer returns an error if the Params have no valid Time. It copies what templates might change.
func NewRenderer(params Params) (*Renderer, error) {
	now, err := time.Parse(time.RFC3339Nano, params.Time)
	if err != nil {
		return nil, fmt.Errorf("reading the time of the action: %w", err)
	}
	r := &Renderer{params: params.clone(), budget: &budget{}}
	r.functions = functionsOf(now.UTC(), r.budget)
	return r, nil
}

// Args renders the arguments of a phase: every text, at any depth, keys of maps too. Numbers, booleans and nulls pass through, and
// so does what the function wants as it is. The error is a *RenderError.
func (r *Renderer) Args(phase string, function Function, args map[string]any) (map[string]any, error) {
	r.refill()
	rendered, err := r.mapping("", args, function.Raw)
	return rendered, inPhase(phase, err)
}

// Texts renders the values of a map, such as the fields of a phase's object or of an output artifact. The name of the map is for
// the *RenderError.
func (r *Renderer) Texts(phase, name string, texts map[string]string) (map[string]string, error) {
	r.refill()
	rendered := make(map[string]string, len(texts))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		text, err := r.text(name+"."+key, texts[key])
		if err != nil {
			return nil, inPhase(phase, err)
		}
		rendered[key] = text
	}
	return rendered, nil
}

func (r *Renderer) refill() { r.budget.work, r.textLeft = maxWork, maxOutput }

func inPhase(phase string, err error) error {
	var failed *RenderError
	if errors.As(err, &failed) {
		failed.Phase = phase
	}
	return err
}

func (r *Renderer) value(name string, value any, raw []string) (any, error) {
	switch value := value.(type) {
	case string:
		return r.text(name, value)
	case map[string]any:
		return r.mapping(name, value, raw)
	case []any:
		rendered := make([]any, len(value))
		for i := range value {
			var err error
			if rendered[i], err = r.value(fmt.Sprintf("%s[%d]", name, i), value[i], raw); err != nil {
				return nil, err
			}
		}
		return rendered, nil
	default:
		return value, nil
	}
}

// mapping goes by the order of the keys, so that the same error is found first each time.
func (r *Renderer) mapping(name string, of map[string]any, raw []string) (map[string]any, error) {
	rendered := make(map[string]any, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		member := key
		if name != "" {
			member = name + "." + key
		}
		if slices.Contains(raw, key) {
			rendered[key] = of[key]
			continue
		}
		renderedKey, err := r.text(member, key)
		if err != nil {
			return nil, err
		}
		if _, twice := rendered[renderedKey]; twice {
			return nil, &RenderError{Argument: member, Expression: key, Reason: "another key gives the same text"}
		}
		if rendered[renderedKey], err = r.value(member, of[key], raw); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// text renders one template.
func (r *Renderer) text(name, source string) (string, error) {
	if !strings.Contains(source, "{{") {
		return source, nil
	}
	e := engine{functions: r.functions, missingKey: "error", textLimit: r.textLeft}
	rendered, err := e.execute(name, source, r.params)
	r.textLeft -= len(rendered)
	return rendered, err
}

// engine executes templates.
type engine struct {
	// functions pay from a budget.
	functions template.FuncMap
	// missingKey is what becomes of keys that a map does not have: error, zero or default.
	missingKey string
	// textLimit is how much text a template may give, in bytes.
	textLimit int
}

// parse a template, and make it pay.
func (e engine) parse(source string) (*template.Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the template is longer than %d bytes", maxSource)
	}
	parsed, err := template.New(templateName).Option("missingkey=" + e.missingKey).Funcs(e.functions).Parse(source)
	if err != nil {
		return nil, err
	}
	for _, each := range parsed.Templates() {
		if each.Tree != nil {
			instrument(each.Tree)
		}
	}
	return parsed, nil
}

// check the syntax of a template. The error is a *RenderError about the argument of that name.
func (e engine) check(name, source string) (err error) {
	defer func() { _, err = outcomeOf(name, "", err, recover()) }()
	_, err = e.parse(source)
	return err
}

// execute a template. The error is a *RenderError about the argument of that name.
func (e engine) execute(name, source string, data any) (rendered string, err error) {
	defer func() { rendered, err = outcomeOf(name, rendered, err, recover()) }()
	parsed, err := e.parse(source)
	if err != nil {
		return "", err
	}
	out := &limitedBuilder{left: e.textLimit}
	err = parsed.Execute(out, data)
	return string(out.text), err
}

// outcomeOf what may have failed, or panicked: the engine turns what functions panic with into errors, but may fail itself.
func outcomeOf(name, rendered string, err error, panicked any) (string, error) {
	if panicked != nil {
		err = fmt.Errorf("the template engine failed: %v", panicked)
	}
	if err == nil {
		return rendered, nil
	}
	expression, reason := explain(err)
	failed := &RenderError{Argument: name, Expression: expression, Reason: reason}
	for _, limit := range []error{errWork, errOutput, errDepth} {
		if errors.Is(err, limit) {
			failed.Cause, failed.Reason = limit, limit.Error()
		}
	}
	return "", failed
}
