// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/jsonscan"
)

var someTypes = []Type{{"v1", "ConfigMap", true}, {"apps/v1", "Deployment", true}, {"apps/v1beta1", "Deployment", true}, {"v1", "Namespace", false}}

func rulesFor(parentNamespace string, strict bool) Rules {
	version := V1
	if strict {
		version = V2
	}
	return Rules{Phase: "sync", Version: version, Strict: strict, ParentNamespace: parentNamespace, Types: someTypes}
}

func TestAnAnswerKeepsOrderAndBytesOfItsChildren(t *testing.T) {
	const first, second = `{ "kind":"ConfigMap", "metadata":{"name":"b","labels":{"z":"1","a":"\u0062"}},"apiVersion":"v1","data":{"x":1.0} }`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"ns","labels":null,"annotations":{"a":"b"}}}`
	got, err := DecodeComposite([]byte(` {"status": {"x": [1,2] },"children":[`+first+` , `+second+`],"resyncAfterSeconds":1.5,"finalized":true} `+"\n"), rulesFor("ns", true))
	if err != nil {
		t.Fatal(err)
	}
	want := &CompositeResponse{Status: []byte(`{"x": [1,2] }`), ResyncAfter: 1500 * time.Millisecond, Finalized: true, Children: []Child{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "b", Labels: Labels{{"a", "b"}, {"z", "1"}}, JSON: []byte(first)},
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "a", JSON: []byte(second)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for selector, want := range map[string]bool{"a=b,z": true, "a=c": false, "!z": false, "": true, "z in (1,2)": true, "y": false} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Matches(got.Children[0].Labels) != want {
			t.Errorf("selector %q matches: %t, want %t", selector, !want, want)
		}
	}
}

func TestWhatAHookLeavesOutOrSetsToNullIsEmpty(t *testing.T) {
	for _, body := range []string{`{}`, `{"status":null,"children":null,"resyncAfterSeconds":null,"finalized":null}`, `{"children":[],"resyncAfterSeconds":-1}`} {
		got, err := DecodeComposite([]byte(body), rulesFor("ns", true))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got.Status != nil || len(got.Children) != 0 || got.ResyncAfter != 0 || got.Finalized || len(got.Warnings) != 0 {
			t.Errorf("%s is read as %+v", body, got)
		}
	}
}

func child(extra string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}` + extra + `}`
}

func TestInvalidAnswers(t *testing.T) {
	const begins = "can't unmarshal webhookResponse (version: v1, type: sync): "
	for _, test := range []struct {
		name, body, parentNamespace string
		reason                      Reason
		text                        string
	}{
		{"nothing at all", ``, "ns", ReasonInvalidJSON, begins + "unexpected end of JSON input at byte 0"},
		{"half of it", `{"children":[`, "ns", ReasonInvalidJSON, begins + "unexpected end of JSON input at byte 13"},
		{"no JSON", `<html>`, "ns", ReasonInvalidJSON, begins + "invalid character at byte 0"},
		{"trailing data", `{} {}`, "ns", ReasonInvalidJSON, "unexpected data after the JSON value at byte 3"},
		{"null", `null`, "ns", ReasonInvalidResponse, begins + "the response is no JSON object"},
		{"a list", `[]`, "ns", ReasonInvalidResponse, "the response is no JSON object"},
		{"a null child", `{"children":[` + child("") + `,null]}`, "ns", ReasonInvalidChild, "children[1] is null, and must be an object"},
		{"children as an object", `{"children":{}}`, "ns", ReasonInvalidResponse, "children is an object, and must be a list of objects"},
		{"a child that is a string", `{"children":["x"]}`, "ns", ReasonInvalidResponse, "children[0] is a string, and must be an object"},
		{"a name that is a number", `{"children":[{"metadata":{"name":1}}]}`, "ns", ReasonInvalidResponse, "children[0].metadata.name is a number, and must be a string"},
		{"a label that is a boolean", `{"children":[{"metadata":{"labels":{"a":true}}}]}`, "ns", ReasonInvalidResponse, "children[0].metadata.labels.a is a boolean, and must be a string"},
		{"a child without kind", `{"children":[{"apiVersion":"v1","metadata":{"name":"a"}}]}`, "ns", ReasonInvalidChild, "children[0] (a) has no kind"},
		{"a child without name", `{"children":[{"apiVersion":"v1","kind":"ConfigMap"}]}`, "ns", ReasonInvalidChild, "children[0] (ConfigMap) has no metadata.name"},
		{"an undeclared type", `{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"ns"}}]}`, "ns", ReasonUndeclaredChild,
			"children[0] (Secret ns/a) is of the type Secret of v1, which is not among the child resources of the controller: declare it there, or do not return it"},
		{"an undeclared version", `{"children":[{"apiVersion":"apps/v2","kind":"Deployment","metadata":{"name":"a"}}]}`, "ns", ReasonUndeclaredChild, "the type Deployment of apps/v2"},
		{"a foreign namespace", `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}]}`, "ns", ReasonForeignNamespace,
			"children[0] (ConfigMap other/a) is in another namespace than its parent, which is in ns and cannot own it"},
		{"a cluster-scoped child of a namespaced parent", `{"children":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}]}`, "ns", ReasonForeignNamespace, "is cluster-scoped"},
		{"no namespace anywhere", `{"children":[` + child("") + `]}`, "", ReasonInvalidChild, "has no metadata.namespace, and its parent has none either"},
		{"the same child twice", `{"children":[` + child("") + `,` + child(`,"data":{}`) + `]}`, "ns", ReasonDuplicateChild, "children has the same object at 0 and at 1: ConfigMap ns/a"},
		{"the same child twice in two versions", `{"children":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}},{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"}}]}`,
			"ns", ReasonDuplicateChild, "Deployment ns/a"},
		{"the same cluster-scoped child twice", `{"children":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","namespace":"x"}},{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}]}`,
			"", ReasonDuplicateChild, "Namespace a"},
		{"a key twice in a child", `{"children":[` + child(`,"data":{"x":[{"k":1,"l":2,"k":1}]}`) + `]}`, "ns", ReasonInvalidJSON, `children[0].data.x[0] has the key "k" twice`},
		{"a key twice in two spellings", `{"children":[` + child(`,"data":{"k":1,"\u006b":1}`) + `]}`, "ns", ReasonInvalidJSON, `children[0].data has the key "k" twice`},
		{"a kind twice", `{"children":[{"kind":"ConfigMap","kind":"Secret"}]}`, "ns", ReasonInvalidJSON, `children[0] has the key "kind" twice`},
		{"a key twice in the status", `{"status":{"a":{"b":1,"b":2}}}`, "ns", ReasonInvalidJSON, `status.a has the key "b" twice`},
		{"status as a string", `{"status":"fine"}`, "ns", ReasonInvalidResponse, "status is a string, and must be an object"},
		{"finalized as a string", `{"finalized":"true"}`, "ns", ReasonInvalidResponse, "finalized is a string, and must be a boolean"},
		{"a resync as a string", `{"resyncAfterSeconds":"5"}`, "ns", ReasonInvalidResponse, "resyncAfterSeconds is a string, and must be a number"},
		{"a resync beyond all numbers", `{"resyncAfterSeconds":1e999}`, "ns", ReasonInvalidResponse, "resyncAfterSeconds is out of range"},
		{"an error after everything else", `{"children":[` + child("") + `],"status":{},"finalized":tru}`, "ns", ReasonInvalidJSON, "invalid character at byte"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeComposite([]byte(test.body), rulesFor(test.parentNamespace, false))
			wantReason(t, err, test.reason, test.text)
			if got != nil {
				t.Errorf("and yet there is a response: %+v", got)
			}
		})
	}
}

func TestManyKeysAreComparedToo(t *testing.T) {
	var data strings.Builder
	for i := range 1000 {
		data.WriteString(`"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/7) + `":1,`)
	}
	decode := func(more string) error {
		_, err := DecodeComposite([]byte(`{"children":[`+child(`,"data":{`+data.String()+more+`}`)+`]}`), rulesFor("ns", false))
		return err
	}
	if err := decode(`"last":1`); err != nil {
		t.Error(err)
	}
	wantReason(t, decode(`"last":1,"kxb`+strings.Repeat("y", 0)+`":1`), ReasonInvalidJSON, `children[0].data has the key "kxb" twice`)
}

func TestErrorsFitAnEvent(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	for _, body := range []string{
		`{"status":` + strings.Repeat(`{"`+long[:20]+`":`, 5000) + `{"a":1,"a":2}` + strings.Repeat(`}`, 5000) + `}`,
		`{"children":[{"apiVersion":"v1","kind":"` + long + `","metadata":{"name":"` + long + `"}}]}`,
		`{"status":{"` + long + `":1,"` + long + `":1}}`,
		`{"status":{"` + long + `":{"a":1,"a":1}}}`,
	} {
		_, err := DecodeComposite([]byte(body), rulesFor("ns", false))
		if ReasonOf(err) == "" || len(err.Error()) > 700 {
			t.Errorf("error of %d bytes: %.100v", len(err.Error()), err)
		}
	}
	_, err := DecodeComposite([]byte(`{"`+long+`":1,"a":1,"`+long+`b":1}`), rulesFor("ns", true))
	if ReasonOf(err) != ReasonUnknownField || len(err.Error()) > 700 {
		t.Errorf("error of %d bytes: %.100v", len(err.Error()), err)
	}
}

func TestJSONThatIsNestedTooDeepIsRefused(t *testing.T) {
	_, err := DecodeComposite([]byte(`{"status":{"a":`+strings.Repeat("[", 1_000_000)), rulesFor("ns", false))
	wantReason(t, err, ReasonInvalidJSON, "10000 levels of nesting")
	if _, err = DecodeComposite([]byte(`{"status":{"a":[{}`+strings.Repeat(",{},[]", jsonscan.MaxDepth)+`]}}`), rulesFor("ns", false)); err != nil {
		t.Errorf("many values that are not nested in each other: %v", err)
	}
}

func TestUnknownFields(t *testing.T) {
	body := []byte(`{"childs":[{"any":"thing"}],"Status":{},"finalized":true,"finalized":false}`)
	got, err := DecodeComposite(body, rulesFor("ns", false))
	if err != nil {
		t.Fatal(err)
	}
	want := &CompositeResponse{Warnings: []string{`unknown field "childs"`, `unknown field "Status"`, `duplicate field "finalized"`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = DecodeComposite(body, rulesFor("ns", true))
	wantReason(t, err, ReasonUnknownField, `strict validation failed for v2 webhookResponse (type: sync, mode: strict): [unknown field "childs", unknown field "Status", duplicate field "finalized"]`)
	_, err = DecodeComposite([]byte(`{"attachments":[]}`), rulesFor("ns", true))
	wantReason(t, err, ReasonUnknownField, `mode: strict): unknown field "attachments"`)
}

func TestDecoratorAnswers(t *testing.T) {
	got, err := DecodeDecorator([]byte(`{"labels":{"b":null,"a":"1"},"annotations":{"x":""},"status":{},"attachments":[`+child("")+`],"resyncAfterSeconds":2,"finalized":true}`), rulesFor("ns", true))
	if err != nil {
		t.Fatal(err)
	}
	want := &DecoratorResponse{
		Labels: []Change{{Key: "a", Value: "1"}, {Key: "b", Remove: true}}, Annotations: []Change{{Key: "x"}}, Status: []byte(`{}`),
		Attachments: []Child{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "a", JSON: []byte(child(""))}},
		ResyncAfter: 2 * time.Second, Finalized: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for body, text := range map[string]string{
		`{"labels":{"a":1}}`:               "labels.a is a number, and must be a string",
		`{"annotations":["a"]}`:            "annotations is a list, and must be an object of strings and nulls",
		`{"labels":{"a":"1","a":null}}`:    `labels has the key "a" twice`,
		`{"attachments":[null]}`:           "attachments[0] is null, and must be an object",
		`{"attachments":[{"kind":"Pod"}]}`: "attachments[0] (Pod) has no apiVersion",
	} {
		_, err := DecodeDecorator([]byte(body), rulesFor("ns", false))
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error of %s is %v, want %q", body, err, text)
		}
	}
}

func TestCustomizeAnswers(t *testing.T) {
	got, err := DecodeCustomize([]byte(`{"relatedResources":[{"apiVersion":"v1","resource":"pods"},{}]}`), rulesFor("ns", true))
	if err != nil {
		t.Fatal(err)
	}
	want := &CustomizeResponse{RelatedResources: [][]byte{[]byte(`{"apiVersion":"v1","resource":"pods"}`), []byte(`{}`)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = DecodeCustomize([]byte(`{"relatedResources":[null]}`), rulesFor("ns", false))
	wantReason(t, err, ReasonInvalidResponse, "relatedResources[0] is null, and must be an object")
	_, err = DecodeCustomize([]byte(`[{"apiVersion":"v1"}]`), rulesFor("ns", false))
	wantReason(t, err, ReasonInvalidResponse, "the response is no JSON object")
}

func TestNamespaceOfAChild(t *testing.T) {
	got, err := DecodeComposite([]byte(`{"children":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","namespace":"x"}},`+
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}}]}`), rulesFor("", false))
	if err != nil {
		t.Fatal(err)
	}
	if got.Children[0].Namespace != "" || got.Children[1].Namespace != "x" {
		t.Errorf("namespaces are %q and %q", got.Children[0].Namespace, got.Children[1].Namespace)
	}
}

func TestInvalidUTF8(t *testing.T) {
	got, err := DecodeComposite([]byte("{\"status\":{\"a\":\"\xff\"}}"), rulesFor("ns", false))
	if err != nil || string(got.Status) != "{\"a\":\"\uFFFD\"}" {
		t.Errorf("response is %+v, error %v", got, err)
	}
}
