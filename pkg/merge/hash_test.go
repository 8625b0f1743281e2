// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/testing/jsoncorpus"
)

func TestHashDoesNotDependOnHowTheSameIsWritten(t *testing.T) {
	for name, pair := range map[string][2]string{
		"order of keys":              {`{"a":1,"b":{"c":[1,{"d":2,"e":3}]}}`, `{"b":{"c":[1,{"e":3,"d":2}]},"a":1}`},
		"spaces":                     {`{"a":[1,true],"b":{}}`, " {\n\t\"a\" : [ 1 , true ] , \"b\" : { } }\r\n"},
		"escapes in keys":            {`{"a":1,"b":2}`, `{"\u0062":2,"\u0061":1}`},
		"a key that comes twice":     {`{"a":1,"b":0,"a":2}`, `{"a":1,"a":2,"b":0}`},
		"in whatever spelling it is": {`{"a":1,"\u0061":2}`, `{"\u0061":1,"a":2}`},
	} {
		if first, second := hashOf(t, pair[0]), hashOf(t, pair[1]); first != second {
			t.Errorf("%s: %s has another hash than %s", name, pair[0], pair[1])
		}
	}
}

func TestHashDiffers(t *testing.T) {
	seen := map[uint64]string{}
	for _, text := range []string{
		`{}`, `[]`, `null`, `true`, `false`, `0`, `1`, `-1`, `""`, `"0"`, `"null"`, `" "`, `[[]]`, `[{}]`, `[null]`, `[0]`, `[1,2]`, `[2,1]`, `[[1],2]`, `[1,[2]]`,
		`{"a":1}`, `{"a":"1"}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":1}}`, `{"a":{},"b":1}`, `{"a":[]}`,
		`{"a":{}}`, `{"a":null}`, `{"":null}`,
		`{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":2,"\u0061":1,"b":1}`, `{"a":1,"\u0061":2,"b":1}`, `["a","b"]`, `["ab"]`, `["","ab"]`,
	} {
		sum := hashOf(t, text)
		if other, found := seen[sum]; found {
			t.Errorf("%s has the hash of %s", text, other)
		}
		seen[sum] = text
	}
}

func TestHashRefusesWhatIsNotJSON(t *testing.T) {
	for _, text := range jsoncorpus.Invalid {
		if sum, err := Hash([]byte(text)); err == nil || sum != 0 {
			t.Errorf("%q has the hash %x, %v", text, sum, err)
		}
	}
}

func TestHashBoundsTheDepth(t *testing.T) {
	nested := func(depth int) []byte { return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth)) }
	if _, err := Hash(nested(maxDepth)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	if _, err := Hash(nested(1000000)); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("a million levels: %v", err)
	}
}

func FuzzHash(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		sum, err := Hash(text)
		if valid := json.Valid(text); valid != (err == nil) {
			t.Fatalf("%q is valid: %v, and its hash has the error %v", text, valid, err)
		}
		if err != nil {
			return
		}
		if again := hashOf(t, string(text)); again != sum {
			t.Fatalf("%q has two hashes", text)
		}
		// A value that is encoded again has its keys sorted and once each, and is the same value again.
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return // a number that no float64 can hold
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Hash(encoded); err != nil {
			t.Fatalf("%s, of %q: %v", encoded, text, err)
		}
	})
}

func hashOf(t *testing.T, text string) uint64 {
	t.Helper()
	sum, err := Hash([]byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return sum
}

func TestHashTree(t *testing.T) {
	seen := map[uint64]any{}
	for _, tree := range []any{
		nil, true, false, int64(0), int64(1), 1.5, "", "0", "null", map[string]any{}, []any{}, []any{nil}, []any{[]any{}}, []any{int64(1), int64(2)},
		[]any{int64(2), int64(1)},
		map[string]any{"a": nil}, map[string]any{"a": "b"}, map[string]any{"b": "a"}, map[string]any{"a": map[string]any{}}, map[string]any{"a": []any{}},
		map[string]any{"a": int64(1), "b": int64(2)}, map[string]any{"a": int64(2), "b": int64(1)}, []any{"a", int64(1), "b", int64(2)},
	} {
		sum := HashTree(tree)
		if other, found := seen[sum]; found {
			t.Errorf("%v has the hash of %v", tree, other)
		}
		if again := HashTree(runtime.DeepCopyJSONValue(tree)); again != sum {
			t.Errorf("%v has two hashes", tree)
		}
		seen[sum] = tree
	}
}
