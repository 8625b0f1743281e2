// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/testing/patience"
)

// values are JSON values of all types, and the ones at the borders of what the decoders of Go types accept.
var values = append(quoted(
	"", "a", "Ready", "0", "1", "-1", "1.5", "5000000000", "a/b", "1e1.5", "1e99", "1e-99", "1e100", "1e-999999999", "1e99999999999999999999", "1e3000000",
	"1Ki", "1E", "1Ei", "+.5m", "1.", strings.Repeat("1", 61)+"e99",
	"10s", "1h2m3.5s", "-5s", "10 seconds", "10sec", "99999999h", "0", "5", "1d", "2540400h10m10.000000000s", "infinite", "1µs",
	"2006-01-02T15:04:05Z", "2006-01-02t15:04:05z", "2006-01-02T15:04:05.123456Z", "2006-01-02T15:04:05.123456789012Z", "2006-01-02T15:04:05,5Z",
	"2006-01-02T15:04:05x5Z", "2006-01-02T15:04:05+24:60", "2006-01-02T15:04:05+25:00", "2006-01-02T15:04:05.123456-23:61", "2006-01-02T15:04:05.123456+02:00",
	"2006-02-30T15:04:05Z", "2006-01-02T24:00:00Z", "2006-01-02T15:04:60Z", "0000-01-01T00:00:00Z", "2006-01-02", "2006-01-02T15:04:05Zz", "2006-01-02T15:04:05ZT",
	"YQ==", "YQ", "-_==", "10.0.0.1", "::1", "http://a b",
),
	"0", "1", "-1", "1.0", "1.5", "-0.0", "1e3", "2147483647", "2147483648", "-2147483648", "-2147483649", "5000000000",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e19", "1e30", "-1e30", "1e300",
	"true", "false", "null",
	"[]", "[null]", "[1]", `["a"]`, "[[]]", "[{}]", `[{"name":1}]`,
	"{}", `{"a":null}`, `{"a":1}`, `{"a":"b"}`, `{"a":[1]}`, `{"a":{"b":[1,{"c":null}]}}`, `{"":""}`,
)

func quoted(texts ...string) []string {
	for i, text := range texts {
		content, _ := json.Marshal(text)
		texts[i] = string(content)
	}
	return texts
}

// TestWhatIsAdmittedCanBeDecoded sets each field of each kind to each value, and decodes those objects that the API server admits.
func TestWhatIsAdmittedCanBeDecoded(t *testing.T) {
	for name, crd := range shipped(t) {
		group, kind := field(crd, "spec")["group"].(string), field(field(crd, "spec"), "names")["kind"].(string)
		for version, root := range schemas(crd) {
			t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
				t.Parallel()
				d := decoding{T: t, gvk: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}}
				for name, property := range field(root, "properties") {
					if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
						d.visit(property.(object), []string{name})
					}
				}
				if d.admitted == 0 || d.refused == 0 {
					t.Errorf("%d values were admitted and %d refused", d.admitted, d.refused)
				}
			})
		}
	}
}

// TestQuantitiesAreShort: a client needs a time with the square of the number of digits to decode a Quantity.
func TestQuantitiesAreShort(t *testing.T) {
	quantities := 0
	for name, crd := range shipped(t) {
		for _, root := range schemas(crd) {
			walk(root, func(schema object) bool {
				if schema["x-kubernetes-int-or-string"] == true && schema["pattern"] != nil {
					quantities++
					if length, _ := schema["maxLength"].(float64); length == 0 || length > 64 {
						t.Errorf("%s: a Quantity has %v characters at most: %v", name, schema["maxLength"], schema["description"])
					}
				}
				return true
			})
		}
	}
	if quantities == 0 {
		t.Error("no Quantity was found: has its schema changed?")
	}
}

// TestDeepFieldsAreAtomic: metadata.managedFields names each field in a granular object. An object as deep as JSON may be is then deeper by four, and the
// API server, which has stored it, serves no list and no watch of the kind any more.
func TestDeepFieldsAreAtomic(t *testing.T) {
	fields := 0
	for name, crd := range shipped(t) {
		for _, root := range schemas(crd) {
			walk(root, func(schema object) bool {
				if schema["x-kubernetes-preserve-unknown-fields"] == true {
					fields++
					if schema["x-kubernetes-map-type"] != "atomic" {
						t.Errorf("%s: a field that admits all is granular: %v", name, schema["description"])
					}
				}
				return true
			})
		}
	}
	if fields == 0 {
		t.Error("no field that admits all was found")
	}
}

type decoding struct {
	*testing.T
	gvk               schema.GroupVersionKind
	admitted, refused int
}

// visit tries the values at a path, which leads through lists and maps, and at the paths below.
func (d *decoding) visit(s object, path []string) {
	admits := d.admission(s)
	for _, value := range values {
		admitted, ok := admits(value)
		if !ok {
			d.refused++
			continue
		}
		d.admitted++
		d.decode(path, admitted, value)
	}
	for _, name := range slices.Sorted(maps.Keys(field(s, "properties"))) {
		d.visit(field(field(s, "properties"), name), append(slices.Clone(path), name))
	}
	if items := field(s, "items"); items != nil {
		d.visit(items, append(slices.Clone(path), "[]"))
	}
	if additional := field(s, "additionalProperties"); additional != nil {
		d.visit(additional, append(slices.Clone(path), "key"))
	}
}

// admission returns what the API server does with a value of a schema before it stores it. It does not check the format int32, as an older API server.
func (d *decoding) admission(s object) func(value string) (any, bool) {
	s = maps.Clone(s)
	if s["format"] == "int32" {
		delete(s, "format")
	}
	content, err := json.Marshal(s)
	if err != nil {
		d.Fatal(err)
	}
	var v1 apiextensionsv1.JSONSchemaProps
	var internal apiextensions.JSONSchemaProps
	if err := json.Unmarshal(content, &v1); err != nil {
		d.Fatal(err)
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil); err != nil {
		d.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		d.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		d.Fatal(err)
	}
	rules := cel.NewValidator(structural, false, celconfig.PerCallLimit) // nil if there are none
	return func(text string) (any, bool) {
		var value any
		if err := utiljson.Unmarshal([]byte(text), &value); err != nil {
			d.Fatal(err)
		}
		pruning.Prune(value, structural, false)
		if !validator.Validate(value).IsValid() {
			return nil, false
		}
		broken, _ := rules.Validate(d.Context(), nil, structural, value, nil, celconfig.RuntimeCELCostBudget)
		return value, len(broken) == 0
	}
}

// decode decodes an object that has the value at the path.
func (d *decoding) decode(path []string, value any, text string) {
	for _, name := range slices.Backward(path) {
		if name == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{name: value}
		}
	}
	content, err := json.Marshal(value)
	if err != nil {
		d.Fatal(err)
	}
	decoded := make(chan error, 1)
	go func() {
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, &d.gvk, nil)
		decoded <- err
	}()
	field := strings.ReplaceAll(strings.Join(path, "."), ".[]", "[]")
	select {
	case err := <-decoded:
		if err != nil {
			d.Errorf("%s: the API server admits %s, which a client cannot decode: %v", field, text, err)
		}
	case <-time.After(patience.Limit):
		panic(fmt.Sprintf("%s: the API server admits %s, which a client takes minutes to decode", field, text))
	}
}
