// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import "text/template"

// parser parses templates that have the same functions. It takes much longer to make the functions, and to give them to a template, than to parse a short one:
// they are made for the first template, and shared. It is not safe for concurrent use.
type parser struct {
	functions  func() template.FuncMap
	missingKey string
	// shared has the functions, and no other template than the last one.
	shared *template.Template
}

// parse parses a template. What it executes pays.
func (p *parser) parse(source string) (*template.Template, error) {
	if p.shared == nil {
		p.shared = p.empty()
	}
	parsed, err := p.shared.New(templateName).Parse(source)
	if err == nil && parsed.Lookup(templateName) != parsed { // one without a text does not replace the last one
		p.shared = p.empty()
		parsed, err = p.shared.New(templateName).Parse(source)
	}
	if err != nil {
		p.shared = nil
		return nil, err
	}
	all := parsed.Templates()
	if len(all) > 1 {
		p.shared = nil // no later template may call what this one has defined
	}
	for _, each := range all {
		if each.Tree == nil {
			continue
		}
		if err := instrument(each.Tree); err != nil {
			p.shared = nil
			return nil, err
		}
	}
	return parsed, nil
}

// empty returns a template without a text.
func (p *parser) empty() *template.Template {
	return template.New(templateName).Option("missingkey=" + p.missingKey).Funcs(p.functions())
}
