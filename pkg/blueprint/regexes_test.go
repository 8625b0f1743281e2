// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"testing"
)

var regexSeeds = []struct{ expression, text, by string }{
	{"a", "banana", "$0$0"}, {"(a)(n)?", "banana", "${2}x$1"}, {"", "héllo", "-"}, {"x*", "axxb", "$$"}, {"^a|b", "abab", "c"}, {`\b`, "a b", "|"},
	{"(?m)^", "a\nb", "> "}, {"a.*b|a", "aaab aa", "<$0>"}, {`\s+`, " a  b ", ""}, {"(?i)[^a-z]+", "A1b2", "_"}, {"(a|ab)(c|bcd)(d*)", "abcd", "$1,$2,$3"},
	{"$", "a\n", "!"}, {"(?s).", "a\xff\xfeb", "x"}, {"a{2,3}", "aaaaa", "b"}, {"[", "a", "b"}, {`(?P<n>a)`, "ba", "${n}${n}"}, {"é*?", "éé", "."}, {`\B`, "abc", "-"},
}

// same is whether our functions of regular expressions give what the library gives.
func same(t *testing.T, expression, text, by string, most int) {
	t.Helper()
	b := NewBudget(t.Context())
	r := regexer{b}
	theirs, mistake := regexp.Compile(expression)
	found, err := r.findAll(expression, text, most)
	if errors.Is(err, errWork) || errors.Is(err, errPattern) {
		return
	}
	if mistake != nil {
		if matches, err2 := r.match(expression, text); err == nil || err.Error() != mistake.Error() || matches || err2 != nil {
			t.Errorf("%q is a mistake: %v, %v", expression, err, err2)
		}
		return
	}
	if want := theirs.FindAllString(text, most); err != nil || !slices.Equal(found, want) {
		t.Errorf("findAll %q %q %d gives %q, %v, want %q", expression, text, most, found, err, want)
	}
	if got, err := r.split(expression, text, most); err == nil && !reflect.DeepEqual(got, theirs.Split(text, most)) {
		t.Errorf("split %q %q %d gives %q, want %q", expression, text, most, got, theirs.Split(text, most))
	}
	if got, err := r.replaceAll(expression, text, by); err == nil && got != theirs.ReplaceAllString(text, by) {
		t.Errorf("replaceAll %q %q %q gives %q, want %q", expression, text, by, got, theirs.ReplaceAllString(text, by))
	}
	if got, err := r.replaceAllLiteral(expression, text, by); err == nil && got != theirs.ReplaceAllLiteralString(text, by) {
		t.Errorf("replaceAllLiteral %q %q %q gives %q, want %q", expression, text, by, got, theirs.ReplaceAllLiteralString(text, by))
	}
	if got, err := r.find(expression, text); err == nil && got != theirs.FindString(text) {
		t.Errorf("find %q %q gives %q, want %q", expression, text, got, theirs.FindString(text))
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if size := programSize(parsed) + 2; err != nil || float64(len(program.Inst)) > size {
		t.Errorf("%q has %d steps, and %v were paid", expression, len(program.Inst), size)
	}
}

func FuzzRegularExpressionsGiveWhatTheLibraryGives(f *testing.F) {
	for _, seed := range regexSeeds {
		for _, most := range []int{-1, 0, 1, 2} {
			f.Add(seed.expression, seed.text, seed.by, most)
		}
	}
	f.Fuzz(same)
}
