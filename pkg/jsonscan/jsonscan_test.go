// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"millwright.dev/pkg/testing/jsoncorpus"
)

func scan(text []byte) (value []byte, err error) {
	s := Scanner{Text: text}
	if value, err = s.Value(); err == nil {
		err = s.End()
	}
	return value, err
}

func TestCorpusMatchesItsNames(t *testing.T) {
	for want, texts := range map[bool][]string{true: jsoncorpus.Valid, false: jsoncorpus.Invalid} {
		for _, text := range texts {
			if got := json.Valid([]byte(text)); got != want {
				t.Errorf("%q: valid is %t, want %t", text, got, want)
			}
		}
	}
}

func TestErrorsNameTheOffset(t *testing.T) {
	for text, want := range map[string]string{
		``: "unexpected end of JSON input at byte 0", `{"a":`: "unexpected end of JSON input at byte 5", `<html>`: "invalid character at byte 0",
		`{1:1}`: "a key is expected at byte 1", `{"a" 1}`: "a colon is expected at byte 5", `[1 2]`: "a comma or ] is expected at byte 3",
		`{"a":1]`: "a comma or } is expected at byte 6", `{} {}`: "unexpected data after the JSON value at byte 3", `"\x"`: "invalid escape in a string at byte 2",
		"\"\n\"": "invalid control character in a string at byte 1", `1.x`: "invalid number at byte 2",
	} {
		_, err := scan([]byte(text))
		if syntax := (*SyntaxError)(nil); !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(depth int) []byte { return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth)) }
	if _, err := scan(nested(MaxDepth)); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	if _, err := scan(nested(MaxDepth + 1)); err == nil || !strings.Contains(err.Error(), "10000 levels") {
		t.Errorf("one level more: %v", err)
	}
	if _, err := scan([]byte(`{"a":[{}` + strings.Repeat(",{},[]", MaxDepth) + `]}`)); err != nil {
		t.Errorf("siblings: %v", err)
	}
}

func TestMembersAreOfAnObject(t *testing.T) {
	stop := errors.New("enough")
	for text, want := range map[string]string{
		`[1]`: "an object is expected at byte 0", ` "a"`: "an object is expected at byte 1", ``: "unexpected end of JSON input at byte 0", `{"a":1`: "unexpected end of JSON input at byte 6",
		`{"a":1,"b":2,"c"}`: "enough",
	} {
		err := EachMember([]byte(text), func(key, _ []byte) error {
			if string(key) == `"b"` {
				return stop
			}
			return nil
		})
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// FuzzValue compares with encoding/json: the same texts are accepted.
func FuzzValue(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := scan(text)
		if accepted, valid := err == nil, json.Valid(text); accepted != valid {
			t.Fatalf("accepted is %t (%v), valid is %t: %q", accepted, err, valid, text)
		}
		if err == nil && !bytes.Equal(value, bytes.Trim(text, " \t\r\n")) {
			t.Errorf("value of %q is %q", text, value)
		}
	})
}

// FuzzSkip compares with encoding/json where the text is valid: values end at the same place, and are compacted to the same text. Any
// other text must not cause a panic or a result outside the text.
func FuzzSkip(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if end, _ := Skip(text, 0); end > len(text) {
			t.Fatalf("%q ends at %d", text, end)
		}
		AppendCompact(nil, text)
		s := Scanner{Text: append(append([]byte("["), text...), ']')}
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		value, spaced, err := s.Skip()
		if !json.Valid(text) {
			return
		}
		if trimmed := bytes.Trim(text, " \t\r\n"); err != nil || !bytes.Equal(value, trimmed) {
			t.Fatalf("value of %q is %q, error %v", text, value, err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			t.Fatal(err)
		}
		if got := AppendCompact(nil, value); !bytes.Equal(got, compact.Bytes()) || spaced != (len(got) < len(value)) {
			t.Errorf("compact value of %q is %q, spaced is %t", text, got, spaced)
		}
		if more, err := s.Next(']'); more || err != nil || s.End() != nil {
			t.Errorf("after the value of %q: more is %t, error %v", text, more, err)
		}
	})
}

// FuzzMembers compares the members of objects with those that encoding/json finds.
func FuzzMembers(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		want := map[string]json.RawMessage{}
		if json.Unmarshal(text, &want) != nil || want == nil {
			return
		}
		got := map[string]json.RawMessage{}
		err := EachMember(text, func(quoted, value []byte) error {
			key, err := Unquote(quoted, false)
			got[string(key)] = value
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q has the keys of %v, want %v", text, got, want)
		}
		for key, value := range want {
			if !bytes.Equal(got[key], value) {
				t.Errorf("%q of %q is %q, want %q", key, text, got[key], value)
			}
		}
	})
}
