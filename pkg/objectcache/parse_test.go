// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/testing/jsoncorpus"
)

// spaced is an object as no API server sends it, but as one might.
const spaced = `{ "kind" : "Widget", "apiVersion":"example.com/v1",
	"metadata": { "managedFields":[ {"manager":"a, ]}\"b"} ], "name":"a", "namespace": "ns" , "uid":"u1", "resourceVersion":"17",
		"generation": 3, "deletionTimestamp": "2026-01-02T03:04:05Z",
		"labels": { "app":"web", "empty" : "" },
		"ownerReferences": [ {"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"u7"},
			{"apiVersion":"x/v1", "kind":"Parent","name":"p", "uid":"u8", "controller": true, "blockOwnerDeletion":true} ] },
	"spec" : { "big": 12345678901234567890, "exact": 1.10, "exponent": 1e3, "text": "two  spaces, \"quotes\" and \\", "none": null, "list": [ ] } }`

// compact is the same as the cache has it.
const compact = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"ns","uid":"u1","resourceVersion":"17",` +
	`"generation":3,"deletionTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"web","empty":""},` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"u7"},` +
	`{"apiVersion":"x/v1","kind":"Parent","name":"p","uid":"u8","controller":true,"blockOwnerDeletion":true}]},` +
	`"spec":{"big":12345678901234567890,"exact":1.10,"exponent":1e3,"text":"two  spaces, \"quotes\" and \\","none":null,"list":[]}}`

func mustParse(t testing.TB, text string) *RawObject {
	t.Helper()
	o, err := Parse([]byte(text), false)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestStoredForm(t *testing.T) {
	if diff := cmp.Diff(compact, mustParse(t, spaced).JSON()); diff != "" {
		t.Error(diff)
	}
}

func TestManagedFieldsAreKeptWhereTheyAreAskedFor(t *testing.T) {
	o, err := Parse([]byte(spaced), true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(o.JSON(), `"metadata":{"managedFields":[{"manager":"a, ]}\"b"}],"name"`) {
		t.Errorf("managedFields are not there: %s", o.JSON())
	}
	if len(o.GetManagedFields()) != 1 {
		t.Error("GetManagedFields does not find them")
	}
}

func TestTheHeaderIsThatOfTheObject(t *testing.T) {
	o := mustParse(t, spaced)
	owner, owned := o.Controller()
	if want := (Owner{APIVersion: "x/v1", Kind: "Parent", Name: "p", UID: "u8"}); !owned || owner != want {
		t.Errorf("controller: %v %v, want %v", owned, owner, want)
	}
	if o.APIVersion() != "example.com/v1" || o.Kind() != "Widget" || o.GetGeneration() != 3 || !o.Deleting() {
		t.Errorf("apiVersion %q, kind %q, generation %d, deleting %v", o.APIVersion(), o.Kind(), o.GetGeneration(), o.Deleting())
	}
	wantSameMetadata(t, o, []byte(spaced))
}

// wantSameMetadata compares all that a metav1.Object has with what encoding/json makes of the text.
func wantSameMetadata(t testing.TB, o *RawObject, text []byte) {
	t.Helper()
	var want struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(text, &want); err != nil {
		t.Skip("its metadata is none")
	}
	want.Metadata.ManagedFields = nil
	for i := range reflect.TypeFor[metav1.Object]().NumMethod() {
		name := reflect.TypeFor[metav1.Object]().Method(i).Name
		if strings.HasPrefix(name, "Set") {
			continue
		}
		get := func(of metav1.Object) any { return reflect.ValueOf(of).MethodByName(name).Call(nil)[0].Interface() }
		got, wanted := get(o), get(&want.Metadata)
		if name == "GetLabels" && len(got.(map[string]string)) == 0 && len(wanted.(map[string]string)) == 0 {
			continue
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestNamesWithEscapesAreUnescaped(t *testing.T) {
	o := mustParse(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a\u0026\"b","labels":{"k\u0041":"v"}}}`)
	if o.GetName() != `a&"b` || !o.Labels().Has("kA") {
		t.Errorf("name %q, labels %v", o.GetName(), o.GetLabels())
	}
}

func TestWhatIsNoObjectIsAnError(t *testing.T) {
	for _, text := range []string{``, `null`, `[]`, `"a"`, `{}`, `{"kind":"X"}`, `{"apiVersion":1,"kind":"X"}`, `{"apiVersion":"v1","kind":"X"`, `{"apiVersion":"v1","kind":"X"} x`} {
		if o, err := Parse([]byte(text), false); err == nil {
			t.Errorf("%q became %s", text, o.JSON())
		}
	}
}

func TestSelectorsMatchLabelsWithoutAllocation(t *testing.T) {
	o := mustParse(t, spaced)
	for text, want := range map[string]bool{"app=web": true, "app=db": false, "empty=": true, "!app": false, "other": false, "app in (db,web),!x": true} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(o.Labels()) != want {
			t.Errorf("%q matches: %v", text, !want)
		}
		if n := testing.AllocsPerRun(10, func() { selector.Matches(o.Labels()) }); n != 0 {
			t.Errorf("%q needs %v allocations", text, n)
		}
	}
}

func TestKnownObjectIsNotCreatedAgain(t *testing.T) {
	known := mustParse(t, spaced)
	p := parser{known: func(namespace, name []byte) *RawObject {
		if string(namespace) == "ns" && string(name) == "a" {
			return known
		}
		return nil
	}}
	if o, err := p.parse([]byte(spaced), nil); err != nil || o != known {
		t.Errorf("the same object became another one (%v)", err)
	}
	changed := strings.Replace(spaced, "two", "four", 1)
	if o, err := p.parse([]byte(changed), nil); err != nil || o == known || o.JSON() == known.JSON() {
		t.Errorf("a changed object is taken for the same (%v)", err)
	}
}

// FuzzParse compares with encoding/json: whatever is valid has the same content afterwards, and nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(spaced))
	f.Add([]byte(compact))
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p parser
		_, _ = p.parse(text, nil) // of anything: it must not panic
		o, err := Parse(text, true)
		if err != nil {
			return
		}
		wantSameContent(t, text, o)
	})
}

func wantSameContent(t *testing.T, text []byte, o *RawObject) {
	t.Helper()
	decode := func(text []byte) (tree map[string]any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&tree); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return tree
	}
	var compacted bytes.Buffer
	if err := json.Compact(&compacted, []byte(o.JSON())); err != nil || compacted.String() != o.JSON() {
		t.Errorf("%s is not compact (%v)", o.JSON(), err)
	}
	if want, got := decode(text), decode([]byte(o.JSON())); !hasDuplicates(text) && !reflect.DeepEqual(want, got) {
		t.Errorf("%s became %s", text, o.JSON())
	}
}

// hasDuplicates reports whether an object has duplicate members: which of them counts is undefined.
func hasDuplicates(text []byte) bool {
	type level struct {
		keys  map[string]bool
		isKey bool
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{keys: map[string]bool{}, isKey: true})
			continue
		case json.Delim('['):
			levels = append(levels, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		default:
			if at := len(levels) - 1; at >= 0 && levels[at].isKey {
				if levels[at].keys[token.(string)] {
					return true
				}
				levels[at].keys[token.(string)] = true
				levels[at].isKey = false
				continue
			}
		}
		if at := len(levels) - 1; at >= 0 && levels[at].keys != nil {
			levels[at].isKey = true
		}
	}
}

// BenchmarkParse is the cost of a list's item or a watch event of 2.4 kB.
func BenchmarkParse(b *testing.B) {
	text := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"17","labels":{"app":"web"}},"data":{"a":"` + strings.Repeat("0123456789", 225) + `"}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var p parser
	for b.Loop() {
		if _, err := p.parse(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}
