// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var texts = []string{
	`{"a":1,"b":[true,false,null,-1.5e+3],"c":{"d":"}]\"\\"},"e":""}`,
	" {\t\"a\" :\n[ 1 , { } ] , \"b\":\"\\\\\" } ",
	`[]`, `{}`, `"\""`, `"a"`, `{"a":{"a":{"a":[[[[]]]]}}}`, `{"ü\u2028":"\ud83e\udd99"}`,
}

func FuzzValuesAreFoundAsEncodingJSONFindsThem(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if text = bytes.TrimSpace(text); !json.Valid(text) || !strings.ContainsAny(string(text[:1]), `{["`) {
			return
		}
		for name, reader := range map[string]io.Reader{
			"at once": bytes.NewReader(append(text, text...)), "by bytes": iotest.OneByteReader(bytes.NewReader(append(text, text...))),
		} {
			s := newStream(reader, 1)
			for range 2 {
				if value, err := s.value(); err != nil || !bytes.Equal(value, text) {
					t.Fatalf("%s: %q was read as %q, %v", name, text, value, err)
				}
			}
			if _, err := s.value(); err != io.EOF {
				t.Errorf("%s: behind the last value: %v", name, err)
			}
		}
		if text[0] != '{' {
			return
		}
		want, got := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := members(text, func(name, value []byte) {
			var unescaped string
			if err := json.Unmarshal([]byte(`"`+string(name)+`"`), &unescaped); err != nil {
				t.Fatal(err)
			}
			got[unescaped] = bytes.Clone(value)
		}); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members of %q: -want +got:\n%s", text, diff)
		}
	})
}

func FuzzWhatIsNoJSONIsAnErrorAndAnEnd(f *testing.F) {
	for _, text := range append(texts, `{"a"`, `{"a":`, `{"a":1`, `{"a" 1}`, `{1:1}`, `{"a":1 "b":2}`, `}`, `"`, `"\`, `[`, `{"items":[{}`, `{"items":[1 2]}`, `{"items":{}}`) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newStream(bytes.NewReader(text), 1)
		for read := 0; ; {
			value, err := s.value()
			if err != nil {
				break
			}
			if read += len(value); len(value) == 0 || read > len(text) {
				t.Fatalf("%q goes on for ever", text)
			}
		}
		items := 0
		list, err := readList(bytes.NewReader(text), func([]byte) { items++ })
		if err == nil && (list.items != items || items > len(text)) {
			t.Errorf("%q has %d items, of which %d were told", text, list.items, items)
		}
		outlineOf(text)
	})
}

func TestAListThatIsCutOffAnywhereIsAnError(t *testing.T) {
	whole := `{"apiVersion":"v1","items":[` + dolly(1, 2) + `, ` + dolly(2, 3) + `],"kind":"LlamaRecordList","metadata":{"resourceVersion":"5","remainingItemCount":3,"continue":"more"}}`
	for cut := range whole {
		if _, err := readList(strings.NewReader(whole[:cut]), func([]byte) {}); err == nil || err == io.EOF {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	list, err := readList(iotest.HalfReader(strings.NewReader(whole)), func([]byte) {})
	if err != nil || list.items != 2 || list.meta.ResourceVersion != "5" || list.meta.Continue != "more" || *list.meta.RemainingItemCount != 3 {
		t.Errorf("the whole one: %+v, %v", list, err)
	}
}
