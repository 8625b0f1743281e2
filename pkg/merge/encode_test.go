// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzRecordIsThatOfEncodingJSON holds the encoder to encoding/json, byte for byte: an annotation that another engine has
// written must be found as it is.
func FuzzRecordIsThatOfEncodingJSON(f *testing.F) {
	f.Add([]byte(`{"b":"<a&b>\u2028\u2029\u0000\u001f\b\f\n\r\t\"\\\/é\ud83d\ude00","a":[1,-1,1.5,1e-7,1e21,123456789012345678,1e-9,0.000001,-0.0,true,false,null],"":{}}`), "x")
	f.Add([]byte(`{}`), "\xff\xfe\u2028\xe2\x80")
	f.Add([]byte(`[]`), "\u007f\ufffd")
	f.Fuzz(func(t *testing.T, text []byte, raw string) {
		var value any
		if kjson.Unmarshal(text, &value) != nil {
			return
		}
		value = map[string]any{"value": value, raw: raw}
		want, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var e encoder
		if err := e.encode(nil, value, 0); err != nil {
			if strings.Contains(err.Error(), "more than 10000") {
				return
			}
			t.Fatal(err)
		}
		if string(e.text) != string(want) {
			t.Fatalf("got  %s\nwant %s", e.text, want)
		}
	})
}

func TestEncodingRefusesNumbersThatJSONHasNot(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if text, err := record(map[string]any{"a": f}); err == nil || !strings.Contains(err.Error(), "a: this is no number that JSON has") {
			t.Errorf("%v is written as %s, %v", f, text, err)
		}
	}
}
