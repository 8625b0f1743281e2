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

	"millwright.dev/pkg/testing/jsoncorpus"
)

// FuzzStream compares with encoding/json: a value is found wherever the stream is cut into pieces.
func FuzzStream(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if text = bytes.TrimSpace(text); !json.Valid(text) || !strings.ContainsAny(string(text[:1]), `{["`) {
			return
		}
		for name, reader := range map[string]io.Reader{
			"in one piece": bytes.NewReader(append(text, text...)), "by bytes": iotest.OneByteReader(bytes.NewReader(append(text, text...))),
		} {
			s := newStream(reader, 1)
			for range 2 {
				if value, err := s.value(); err != nil || !bytes.Equal(value, text) {
					t.Fatalf("%s: %q was read as %q, %v", name, text, value, err)
				}
			}
			if _, err := s.value(); err != io.EOF {
				t.Errorf("%s: after the last value: %v", name, err)
			}
		}
	})
}

// FuzzReadList reads any text as a stream, a list and a record: each ends, and none panics.
func FuzzReadList(f *testing.F) {
	jsoncorpus.Add(f)
	f.Add([]byte(`{"items":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newStream(bytes.NewReader(text), 1)
		for read := 0; ; {
			value, err := s.value()
			if err != nil {
				break
			}
			if read += len(value); len(value) == 0 || read > len(text) {
				t.Fatalf("%q has no end", text)
			}
		}
		items := 0
		list, err := readList(bytes.NewReader(text), func([]byte) { items++ })
		if err == nil && (list.items != items || items > len(text)) {
			t.Errorf("%q has %d items, of which %d were passed on", text, list.items, items)
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
