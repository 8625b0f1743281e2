// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

const (
	// maxPattern is the longest regular expression, in bytes, and maxProgram the largest: repetitions are written out in it.
	maxPattern, maxProgram = 4 << 10, 10_000
)

var errPattern = fmt.Errorf("TemplateTooExpensive: the regular expression is longer than %d bytes, or has more than %d steps with its repetitions written out",
	maxPattern, maxProgram)

// pattern is a compiled regular expression. Matching takes at most size steps for each character that is read.
type pattern struct {
	*regexp.Regexp
	size float64
	// before is that what a match is depends on what stands before it.
	before bool
}

// compile a regular expression of which the size is known first. Compiled ones are kept.
func (b *Budget) compile(text string) (*pattern, error) {
	if known := b.patterns[text]; known != nil {
		return known, b.pay(callCost)
	}
	if len(text) > maxPattern {
		return nil, errPattern
	}
	if err := b.pay(parseCost(text)); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p := &pattern{size: programSize(parsed) + 2, before: looksBack(parsed)}
	if p.size > maxProgram {
		return nil, errPattern
	}
	if err := b.pay(100 * p.size); err != nil {
		return nil, err
	}
	if p.Regexp, err = regexp.Compile(text); err != nil {
		return nil, err
	}
	b.patterns[text] = p
	return p, nil
}

// parseCost of a regular expression: classes of Unicode are large tables, and a range of characters without regard to case is gone
// through one by one.
func parseCost(text string) float64 {
	cost := 1000 + 40*float64(len(text))
	cost += 50_000 * float64(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	wide := strings.Contains(text, `\x`) || strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	if wide && strings.Contains(text, "(?") {
		cost += 1_000_000 * float64(strings.Count(text, "-"))
	}
	return cost
}

// programSize is how many steps the compiled program has at most.
func programSize(of *syntax.Regexp) float64 {
	size := 0.0
	for _, sub := range of.Sub {
		size += programSize(sub) + 1
	}
	switch of.Op {
	case syntax.OpLiteral:
		return float64(len(of.Rune))
	case syntax.OpRepeat:
		return (size+1)*float64(max(of.Min, of.Max, 1)) + 2
	default:
		return size + 2
	}
}

func looksBack(of *syntax.Regexp) bool {
	switch of.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range of.Sub {
		if looksBack(sub) {
			return true
		}
	}
	return false
}

// one match, or nil. It goes through the text once.
func (p *pattern) one(b *Budget, text string) ([]int, error) {
	if err := b.pay(2 * p.size * float64(len(text)+1)); err != nil {
		return nil, err
	}
	return p.FindStringIndex(text), nil
}

// all returns all matches, at most n if it is not negative. Each is looked for from the end of the one before, and may be looked for to the end
// of the text each time.
func (p *pattern) all(b *Budget, text string, most int) (found [][]int, err error) {
	if most < 0 {
		most = len(text) + 1
	}
	if p.before {
		return p.allFromTheStart(b, text, most)
	}
	for at, last := 0, -1; len(found) < most && at <= len(text); {
		match, err := p.next(b, text, at)
		if err != nil || match == nil {
			return found, err
		}
		empty, repeated := match[1] == at, match[0] == last
		last = match[1]
		if !empty {
			at = match[1]
		} else if _, width := utf8.DecodeRuneInString(text[at:]); width > 0 {
			at += width
		} else {
			at = len(text) + 1
		}
		if !empty || !repeated {
			found = append(found, match)
		}
	}
	return found, nil
}

// next match at or after that position. What stands before it is not seen.
func (p *pattern) next(b *Budget, text string, at int) ([]int, error) {
	reader := &paidReader{Reader: strings.NewReader(text[at:]), budget: b, cost: 2 * p.size}
	match := p.FindReaderSubmatchIndex(reader)
	if err := cmp.Or(reader.err, b.pay(callCost+p.size+10*float64(len(match)))); err != nil {
		return nil, err
	}
	for i := range match {
		if match[i] >= 0 {
			match[i] += at
		}
	}
	return match, nil
}

// allFromTheStart finds them in one go, and pays for looking to the end of the text each time.
func (p *pattern) allFromTheStart(b *Budget, text string, most int) ([][]int, error) {
	if most == 0 {
		return nil, nil
	}
	failure := b.pay(2 * p.size * float64(len(text)+1))
	if failure != nil {
		return nil, failure
	}
	left, count := len(text), 0
	func() {
		defer func() {
			if recovered := recover(); recovered != nil && failure == nil {
				panic(recovered)
			}
		}()
		p.ReplaceAllStringFunc(text, func(match string) string {
			left, count = left-len(match), count+1
			// Once now and once below, each time with the text that is made.
			if failure = b.pay(4*p.size*float64(left+1) + callCost + 20*float64(p.NumSubexp()+1)); failure != nil {
				panic(failure)
			}
			return ""
		})
	}()
	if failure != nil {
		return nil, failure
	}
	return p.FindAllStringSubmatchIndex(text, most), nil
}

// paidReader pays for each character that is read.
type paidReader struct {
	*strings.Reader
	budget *Budget
	cost   float64
	err    error
}

func (r *paidReader) ReadRune() (c rune, width int, err error) {
	if r.err = r.budget.pay(r.cost); r.err != nil {
		return 0, 0, io.EOF
	}
	return r.Reader.ReadRune()
}
