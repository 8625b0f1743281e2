// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestWithLastAppliedRecordsWhatTheHookDesires(t *testing.T) {
	desired := tree(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
  annotations: {b: c}
  ownerReferences: [{name: p}]
data: {html: "<a href='x'>&", text: "one\n\ttwo \"\\\u2028"}
binary: [1, 2.5, 1e30, true, null]`)
	before := runtime.DeepCopyJSON(desired)
	created, err := WithLastApplied(desired)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, desired); diff != "" {
		t.Errorf("the desired object has been changed:\n%s", diff)
	}
	// What Metacontroller 4.17 writes.
	const want = `{"apiVersion":"v1","binary":[1,2.5,1e+30,true,null],"data":{"html":"\u003ca href='x'\u003e\u0026","text":"one\n\ttwo \"\\\u2028"},` +
		`"kind":"ConfigMap","metadata":{"annotations":{"b":"c"},"name":"c"}}`
	object := unstructured.Unstructured{Object: created}
	if diff := cmp.Diff(map[string]string{"b": "c", LastAppliedAnnotation: want}, object.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(desired["data"], created["data"]); diff != "" || len(object.GetOwnerReferences()) != 1 {
		t.Errorf("the rest is not what is desired:\n%s", diff)
	}
	again, err := WithLastApplied(created)
	if diff := cmp.Diff(created, again); diff != "" || err != nil {
		t.Errorf("the record of an object that has one: %v\n%s", err, diff)
	}
	if verdict, err := update(t, created, desired); err != nil || verdict.Differs || verdict.DesiredChanged {
		t.Errorf("what has just been created: %+v, %v", verdict, err)
	}
}

func TestUpdateKeepsAnEqualRecord(t *testing.T) {
	desired := child(tree(t, "{spec: {a: 1}, status: {}, metadata: {creationTimestamp: null, ownerReferences: [{name: p}], annotations: {x: z}}}"))
	for name, annotation := range map[string]string{
		"written by this engine":             `{"apiVersion":"example.com/v1","kind":"Child","metadata":{"annotations":{"x":"z"},"creationTimestamp":null,"name":"c"},"spec":{"a":1},"status":{}}`,
		"with spaces, in another order":      `{"kind":"Child", "apiVersion":"example.com/v1","spec":{"a":1}, "metadata":{"name":"c","annotations":{"x":"z"}}}`,
		"with owner references":              `{"apiVersion":"example.com/v1","kind":"Child","metadata":{"annotations":{"x":"z"},"name":"c","ownerReferences":[{"name":"p"}]},"spec":{"a":1.0}}`,
		"of an object as a hook returned it": `{"apiVersion":"example.com/v1","kind":"Child","metadata":{"annotations":{"x":"z","metacontroller.k8s.io/last-applied-configuration":""},"name":"c","resourceVersion":"5"},"spec":{"a":1},"status":{"old":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			observed := stored(child(tree(t, "{spec: {a: 1, defaulted: 2}, metadata: {annotations: {x: z}}}")), annotation)
			verdict, err := update(t, observed, desired)
			if err != nil || verdict.Differs || verdict.DesiredChanged || verdict.Unreadable != nil {
				t.Fatalf("%+v, %v:\n%s", verdict, err, cmp.Diff(observed, verdict.Object))
			}
			if reflect.ValueOf(verdict.Object).Pointer() != reflect.ValueOf(observed).Pointer() {
				t.Error("the object is a copy: nothing differs")
			}
		})
	}
}

func TestUpdateReplacesTheRecord(t *testing.T) {
	const want = `{"apiVersion":"example.com/v1","kind":"Child","metadata":{"name":"c"},"spec":{"a":1}}`
	for name, test := range map[string]struct {
		annotation, unreadable string
	}{
		"that is missing":                {"", ""},
		"that is null":                   {"null", ""},
		"of an empty object":             {"{}", ""},
		"that was applied without spec":  {`{"apiVersion":"example.com/v1","kind":"Child","metadata":{"name":"c"}}`, ""},
		"that has a null more":           {`{"apiVersion":"example.com/v1","kind":"Child","metadata":{"name":"c"},"spec":{"a":1,"b":null}}`, ""},
		"that is no object":              {`[1]`, "last-applied-configuration"},
		"that is no JSON":                {`{"spec":`, "last-applied-configuration"},
		"that goes on after the object":  {want + `{`, "last-applied-configuration"},
		"that is too deep to be decoded": {strings.Repeat("[", 20000), "last-applied-configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			observed := stored(child(tree(t, "spec: {a: 1, foreign: 2}")), test.annotation)
			verdict, err := update(t, observed, child(tree(t, "spec: {a: 1}")))
			if err != nil || !verdict.Differs || !verdict.DesiredChanged || !verdict.RecordOnly {
				t.Fatalf("%+v, %v", verdict, err)
			}
			if diff := cmp.Diff(stored(child(tree(t, "spec: {a: 1, foreign: 2}")), want), verdict.Object); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if readable := verdict.Unreadable == nil; readable != (test.unreadable == "") || !readable &&
				!strings.Contains(verdict.Unreadable.Error(), test.unreadable) {
				t.Errorf("unreadable: %v, want %q", verdict.Unreadable, test.unreadable)
			}
		})
	}
}

func TestUpdateDistinguishesDrift(t *testing.T) {
	was := tree(t, "spec: {a: 1}")
	drifted := recording(t, tree(t, "spec: {a: 5}"), was)
	if verdict, err := update(t, drifted, child(was)); err != nil || !verdict.Differs || verdict.DesiredChanged || verdict.RecordOnly {
		t.Errorf("another client has changed it: %+v, %v", verdict, err)
	}
	if verdict, err := update(t, recording(t, was, was), child(tree(t, "spec: {a: 2}"))); err != nil || !verdict.Differs || !verdict.DesiredChanged || verdict.RecordOnly {
		t.Errorf("something else is desired: %+v, %v", verdict, err)
	}
}

func TestHookReturnsObservedObjects(t *testing.T) {
	observed := recording(t, tree(t, "{spec: {a: 1}, status: {ready: 1}}"), tree(t, "spec: {a: 1}"))
	for round := range 4 {
		verdict, err := update(t, observed, runtime.DeepCopyJSON(observed))
		if err != nil || verdict.Differs != (round == 0) {
			t.Fatalf("differs: %v, %v:\n%s", verdict.Differs, err, cmp.Diff(observed, verdict.Object))
		}
		object := unstructured.Unstructured{Object: runtime.DeepCopyJSON(verdict.Object)}
		object.SetResourceVersion(object.GetResourceVersion() + "0")
		observed = object.Object
	}
}

func TestUpdateSharesWhatDoesNotDiffer(t *testing.T) {
	observed := recording(t, tree(t, "spec: {same: {a: 1}, other: {a: 1}}"), nil)
	verdict, err := update(t, observed, child(tree(t, "spec: {other: {a: 2}}")))
	if err != nil {
		t.Fatal(err)
	}
	same := func(object map[string]any) uintptr {
		return reflect.ValueOf(object["spec"].(map[string]any)["same"]).Pointer()
	}
	if same(observed) != same(verdict.Object) {
		t.Error("a subtree that is the same has been copied")
	}
}

func TestUpdateNeedsMetadata(t *testing.T) {
	for name, test := range map[string]struct{ observed, desired, want string }{
		"of what is observed": {"{}", "metadata: {}", "merging into the observed object: its metadata is null, not an object"},
		"of what is desired":  {"metadata: {}", "metadata: x", "merging the desired object: metadata: this is a string, and must be an object"},
	} {
		if _, err := Update(tree(t, test.observed), tree(t, test.desired)); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}
