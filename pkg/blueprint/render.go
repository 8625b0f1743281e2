// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"
)

// templateName is how the engine calls every template. Errors have the argument's name instead.
const templateName = "t"

// parseBase and parseByte are what it costs to parse a template, and each of its bytes.
const parseBase, parseByte = 4000, 16

// Renderer renders the templates of one action with the same Params. It is not safe for concurrent use.
type Renderer struct {
	root   root
	engine engine
}

// NewRenderer returns an error if the Params have no valid Time. It copies what templates might change. All that it renders is paid from
// the Budget.
func NewRenderer(b *Budget, params Params) (*Renderer, error) {
	now, err := time.Parse(time.RFC3339Nano, params.Time)
	if err != nil {
		return nil, fmt.Errorf("reading the time of the action: %w", err)
	}
	e := newEngine(b, "error", func() template.FuncMap { return functionsOf(now.UTC(), b) })
	return &Renderer{root: rootOf(params), engine: e}, nil
}

// Args renders the arguments of a phase: every text, at any depth, keys of maps too. Numbers, booleans and nulls pass through, and
// so does what the function wants as it is. The error is a *RenderError.
func (r *Renderer) Args(phase string, function Function, args map[string]any) (map[string]any, error) {
	rendered, err := r.mapping(nil, args, function.Raw)
	return rendered, inPhase(phase, err)
}

// Texts renders the values of a map, such as the fields of a phase's object or of an output artifact. The name of the map is for
// the *RenderError.
func (r *Renderer) Texts(phase, name string, texts map[string]string) (map[string]string, error) {
	rendered := make(map[string]string, len(texts))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		text, err := r.text((*place)(nil).member(name).member(key), texts[key])
		if err != nil {
			return nil, inPhase(phase, err)
		}
		rendered[key] = text
	}
	return rendered, nil
}

func inPhase(phase string, err error) error {
	var failed *RenderError
	if errors.As(err, &failed) {
		failed.Phase = phase
	}
	return err
}

// place is where a template stands. It is written out for an error only: names may be long.
type place struct {
	in    *place
	name  string
	index int
}

// member of an object, and element of a list.
func (p *place) member(name string) *place { return &place{in: p, name: name, index: -1} }
func (p *place) element(index int) *place  { return &place{in: p, index: index} }

func (p *place) depth() (depth int) {
	for ; p != nil; p = p.in {
		depth++
	}
	return depth
}

func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.in, p.index)
	case p.in == nil:
		return shorten(p.name, maxName)
	default:
		return p.in.String() + "." + shorten(p.name, maxName)
	}
}

func (r *Renderer) value(at *place, value any, raw []string) (any, error) {
	if at.depth() > maxDepth {
		return nil, renderError(at.String(), errDepth)
	}
	switch value := value.(type) {
	case string:
		return r.text(at, value)
	case map[string]any:
		return r.mapping(at, value, raw)
	case []any:
		rendered := make([]any, len(value))
		for i := range value {
			var err error
			if rendered[i], err = r.value(at.element(i), value[i], raw); err != nil {
				return nil, err
			}
		}
		return rendered, nil
	default:
		return value, nil
	}
}

// mapping goes by the order of the keys, so that the same error is found first each time.
func (r *Renderer) mapping(at *place, of map[string]any, raw []string) (map[string]any, error) {
	rendered := make(map[string]any, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		member := at.member(key)
		if slices.Contains(raw, key) {
			rendered[key] = of[key]
			continue
		}
		renderedKey, err := r.text(member, key)
		if err != nil {
			return nil, err
		}
		if _, twice := rendered[renderedKey]; twice {
			return nil, &RenderError{Argument: member.String(), Expression: shorten(key, maxName), Reason: "another key gives the same text"}
		}
		if rendered[renderedKey], err = r.value(member, of[key], raw); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// text renders one template.
func (r *Renderer) text(at *place, source string) (string, error) {
	if isPlain(source) {
		return source, nil
	}
	rendered, err := r.engine.run(source, r.root)
	if err != nil {
		return "", renderError(at.String(), err)
	}
	r.engine.textLimit -= len(rendered)
	return rendered, nil
}

// isPlain reports whether a template has no action, and gives its own text.
func isPlain(source string) bool { return !strings.Contains(source, "{{") }

// engine executes templates.
type engine struct {
	budget *Budget
	parser *parser
	// textLimit is how much text a template may give, in bytes.
	textLimit int
}

// newEngine returns an engine with these functions, which pay from the Budget and are made when they are needed. missingKey is what becomes of keys that a map
// does not have: error, zero or default.
func newEngine(b *Budget, missingKey string, functions func() template.FuncMap) engine {
	return engine{budget: b, parser: &parser{functions: sync.OnceValue(functions), missingKey: missingKey}, textLimit: maxOutput}
}

// payForSource pays for parsing a template.
func payForSource(b *Budget, source string) error {
	switch {
	case len(source) > maxSource:
		return fmt.Errorf("the template is longer than %d bytes", maxSource)
	case isPlain(source):
		return b.pay(float64(len(source)))
	default:
		return b.pay(parseBase + parseByte*float64(len(source)))
	}
}

// parse a template, and make it pay.
func (e engine) parse(source string) (*template.Template, error) {
	if err := payForSource(e.budget, source); err != nil {
		return nil, err
	}
	return e.parser.parse(source)
}

// run a template. What the engine panics with is an error.
func (e engine) run(source string, data any) (rendered string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("the template engine failed: %v", panicked)
		}
	}()
	if isPlain(source) {
		return source, payForSource(e.budget, source)
	}
	parsed, err := e.parse(source)
	if err != nil {
		return "", err
	}
	out := &limitedBuilder{left: e.textLimit}
	if err := parsed.Execute(out, data); err != nil {
		return "", err
	}
	return string(out.text), e.budget.Stopped()
}

// check the syntax of a template. The error is a *RenderError about the argument of that name.
func (e engine) check(name, source string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = renderError(name, fmt.Errorf("the template engine failed: %v", panicked))
		}
	}()
	if isPlain(source) {
		err = payForSource(e.budget, source)
	} else {
		_, err = e.parse(source)
	}
	if err != nil {
		return renderError(name, err)
	}
	return nil
}

// execute a template. The error is a *RenderError about the argument of that name.
func (e engine) execute(name, source string, data any) (string, error) {
	rendered, err := e.run(source, data)
	if err != nil {
		return "", renderError(name, err)
	}
	return rendered, nil
}

// renderError returns the error for users.
func renderError(name string, err error) error {
	expression, reason := explain(err)
	failed := &RenderError{Argument: name, Expression: shorten(expression, maxName), Reason: shorten(reason, maxReason)}
	for _, limit := range []error{errWork, errOutput, errDepth, errNesting, errPattern, errStopped} {
		if errors.Is(err, limit) {
			failed.Cause, failed.Reason = limit, limit.Error()
		}
	}
	return failed
}
