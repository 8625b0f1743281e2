// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"regexp/syntax"
	"strings"
	"text/template"
)

// regexes are sprig's functions of regular expressions, with the same results, but paid.
func regexes(b *Budget) template.FuncMap {
	r := regexer{b}
	return template.FuncMap{
		"regexMatch": r.match, "mustRegexMatch": r.mustMatch,
		"regexFind": r.find, "mustRegexFind": r.find,
		"regexFindAll": r.findAll, "mustRegexFindAll": r.findAll,
		"regexReplaceAll": r.replaceAll, "mustRegexReplaceAll": r.replaceAll,
		"regexReplaceAllLiteral": r.replaceAllLiteral, "mustRegexReplaceAllLiteral": r.replaceAllLiteral,
		"regexSplit": r.split, "mustRegexSplit": r.split,
	}
}

type regexer struct{ *Budget }

func (r regexer) mustMatch(expression, text string) (bool, error) {
	p, err := r.compile(expression)
	if err != nil {
		return false, err
	}
	match, err := p.one(r.Budget, text)
	return match != nil, err
}

// match is false where the expression has a mistake.
func (r regexer) match(expression, text string) (bool, error) {
	matches, err := r.mustMatch(expression, text)
	if mistake := (*syntax.Error)(nil); errors.As(err, &mistake) {
		return false, nil
	}
	return matches, err
}

func (r regexer) find(expression, text string) (string, error) {
	p, err := r.compile(expression)
	if err != nil {
		return "", err
	}
	match, err := p.one(r.Budget, text)
	if err != nil || match == nil {
		return "", err
	}
	return text[match[0]:match[1]], nil
}

func (r regexer) findAll(expression, text string, most int) ([]string, error) {
	p, err := r.compile(expression)
	if err != nil {
		return nil, err
	}
	matches, err := p.all(r.Budget, text, most)
	var found []string
	for _, match := range matches {
		found = append(found, text[match[0]:match[1]])
	}
	return found, err
}

func (r regexer) replaceAll(expression, text, by string) (string, error) {
	signs := float64(strings.Count(by, "$"))
	return r.replace(expression, text, func(p *pattern, to []byte, match []int) ([]byte, error) {
		if err := r.pay(3*float64(len(by)) + signs*float64(callCost+match[1]-match[0])); err != nil {
			return nil, err
		}
		return p.ExpandString(to, by, text, match), nil
	})
}

func (r regexer) replaceAllLiteral(expression, text, by string) (string, error) {
	return r.replace(expression, text, func(_ *pattern, to []byte, _ []int) ([]byte, error) {
		return append(to, by...), r.pay(float64(len(by)))
	})
}

func (r regexer) replace(expression, text string, put func(p *pattern, to []byte, match []int) ([]byte, error)) (string, error) {
	p, err := r.compile(expression)
	if err != nil {
		return "", err
	}
	matches, err := p.all(r.Budget, text, -1)
	if err != nil {
		return "", err
	}
	if err := r.pay(2 * float64(len(text))); err != nil {
		return "", err
	}
	var replaced []byte
	last := 0
	for _, match := range matches {
		if replaced, err = put(p, append(replaced, text[last:match[0]]...), match); err != nil {
			return "", err
		}
		last = match[1]
	}
	return string(append(replaced, text[last:]...)), nil
}

func (r regexer) split(expression, text string, most int) ([]string, error) {
	p, err := r.compile(expression)
	if err != nil || most == 0 {
		return nil, err
	}
	if expression != "" && text == "" {
		return []string{""}, nil
	}
	matches, err := p.all(r.Budget, text, most)
	if err != nil {
		return nil, err
	}
	pieces := make([]string, 0, len(matches)+1)
	begin, end := 0, 0
	for _, match := range matches {
		if most > 0 && len(pieces) == most-1 {
			break
		}
		end = match[0]
		if match[1] != 0 {
			pieces = append(pieces, text[begin:end])
		}
		begin = match[1]
	}
	if end != len(text) {
		pieces = append(pieces, text[begin:])
	}
	return pieces, nil
}
