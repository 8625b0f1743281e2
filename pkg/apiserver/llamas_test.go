// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	api     = "/apis/farm.example.com/v1alpha"
	llamas  = api + "/namespaces/default/llamas"
	farmyes = `"apiVersion":"farm.example.com/v1alpha","kind":"Llama"`
)

func body(name, spec string) string {
	return `{` + farmyes + `,"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const dollySpec = `{"weight":31.4,"height":0.5}`

// field digs into a decoded object.
func field(object any, path ...string) any {
	for _, step := range path {
		fields, _ := object.(map[string]any)
		object = fields[step]
	}
	return object
}

func TestALlamaIsCreatedReadChangedAndDeleted(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	created := farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	if field(created.object, "metadata", "generation") != 1.0 || field(created.object, "metadata", "uid") == "" {
		t.Errorf("created: %s", created.body)
	}
	read := farmer.expect(t, 200, "GET", llamas+"/dolly", "")
	if diff := cmp.Diff(created.object, read.object); diff != "" {
		t.Errorf("what was created (-) is not what is read (+):\n%s", diff)
	}
	farmer.expect(t, 409, "POST", llamas, body("dolly", dollySpec))
	heavier := strings.Replace(string(read.body), "31.4", "40", 1)
	changed := farmer.expect(t, 200, "PUT", llamas+"/dolly", heavier)
	if field(changed.object, "metadata", "generation") != 2.0 || field(changed.object, "spec", "weight") != 40.0 {
		t.Errorf("changed: %s", changed.body)
	}
	farmer.expect(t, 409, "PUT", llamas+"/dolly", heavier) // it has the resourceVersion of before
	farmer.expect(t, 422, "PUT", llamas+"/dolly", body("dolly", dollySpec))
	farmer.expect(t, 404, "PUT", llamas+"/missing", body("missing", dollySpec))
	labelled := farmer.expect(t, 200, "PATCH", llamas+"/dolly", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	if field(labelled.object, "metadata", "generation") != 2.0 {
		t.Errorf("a label has counted the generation up: %s", labelled.body)
	}
	farmer.expect(t, 200, "DELETE", llamas+"/dolly", "")
	gone := farmer.expect(t, 404, "GET", llamas+"/dolly", "")
	if got := field(gone.object, "message"); got != `llamas.farm.example.com "dolly" not found` {
		t.Errorf("message %q", got)
	}
}

func TestALlamaIsPatchedInEveryForm(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	for i, tc := range []struct{ contentType, patch string }{
		{"application/json-patch+json", `[{"op":"replace","path":"/spec/weight","value":1}]`},
		{"application/merge-patch+json", `{"spec":{"weight":2}}`},
		{"application/strategic-merge-patch+json", `{"spec":{"weight":3}}`},
		{"application/apply-patch+yaml", "apiVersion: farm.example.com/v1alpha\nkind: Llama\nspec: {weight: 4}\n"},
	} {
		path := llamas + "/dolly?fieldManager=me&force=true"
		if i < 3 {
			path = llamas + "/dolly?fieldManager=me"
		}
		patched := farmer.expect(t, 200, "PATCH", path, tc.patch, "Content-Type", tc.contentType)
		if got := field(patched.object, "spec", "weight"); got != float64(i+1) {
			t.Errorf("%s: weight %v", tc.contentType, got)
		}
	}
	farmer.expect(t, 415, "PATCH", llamas+"/dolly", `{}`, "Content-Type", "application/json")
}

func TestTwoWhoApplyTheSameFieldAreInConflict(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	apply := func(code int, manager, weight string) response {
		return farmer.expect(t, code, "PATCH", llamas+"/dolly?fieldManager="+manager, body("dolly", `{"height":1,"weight":`+weight+`}`), "Content-Type", "application/apply-patch+yaml")
	}
	apply(201, "one", "1")
	apply(200, "two", "1") // the same value is shared
	conflict := apply(409, "two", "2")
	causes, _ := field(conflict.object, "details", "causes").([]any)
	if len(causes) != 1 || field(causes[0], "field") != ".spec.weight" || field(causes[0], "reason") != "FieldManagerConflict" {
		t.Errorf("causes: %s", conflict.body)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas+"?dryRun=All", body("dolly", dollySpec))
	farmer.expect(t, 404, "GET", llamas+"/dolly", "")
	farmer.expect(t, 422, "POST", llamas+"?dryRun=All", body("dolly", `{"weight":0,"height":1}`))
	before := farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	merge := []string{"Content-Type", "application/merge-patch+json"}
	patched := farmer.expect(t, 200, "PATCH", llamas+"/dolly?dryRun=All", `{"spec":{"weight":2}}`, merge...)
	if field(patched.object, "spec", "weight") != 2.0 || field(patched.object, "metadata", "generation") != 2.0 {
		t.Errorf("the answer does not show what would be: %s", patched.body)
	}
	farmer.expect(t, 200, "DELETE", llamas+"/dolly?dryRun=All", "")
	farmer.expect(t, 200, "DELETE", llamas+"?dryRun=All", "")
	after := farmer.expect(t, 200, "GET", llamas+"/dolly", "")
	if diff := cmp.Diff(before.object, after.object); diff != "" {
		t.Errorf("before (-), after (+):\n%s", diff)
	}
}

func TestInvalidFieldsAreReported(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	refused := farmer.expect(t, 422, "POST", llamas, body("Dolly", `{"weight":1000.5,"height":-1}`))
	var got []string
	causes, _ := field(refused.object, "details", "causes").([]any)
	for _, cause := range causes {
		got = append(got, field(cause, "field").(string)+" "+field(cause, "reason").(string))
	}
	if diff := cmp.Diff([]string{"metadata.name FieldValueInvalid", "spec.weight FieldValueInvalid", "spec.height FieldValueInvalid"}, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	strict := farmer.expect(t, 400, "POST", llamas+"?fieldValidation=Strict", body("dolly", `{"weight":1,"height":1,"colour":"red"}`))
	if !strings.Contains(string(strict.body), `unknown field \"spec.colour\"`) {
		t.Errorf("%s", strict.body)
	}
	warned := farmer.expect(t, 201, "POST", llamas+"?fieldValidation=Warn", body("dolly", `{"weight":1,"height":1,"colour":"red"}`))
	if got := warned.header.Get("Warning"); got != `299 - "unknown field \"spec.colour\""` {
		t.Errorf("warning %s", got)
	}
}

func TestAFinalizerHoldsALlamaUntilItIsRemoved(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	merge := []string{"Content-Type", "application/merge-patch+json"}
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	farmer.expect(t, 200, "PATCH", llamas+"/dolly", `{"metadata":{"finalizers":["example.com/shear"]}}`, merge...)
	farmer.expect(t, 200, "DELETE", llamas+"/dolly", "")
	held := farmer.expect(t, 200, "GET", llamas+"/dolly", "")
	if field(held.object, "metadata", "deletionTimestamp") == nil || field(held.object, "metadata", "generation") != 2.0 {
		t.Errorf("held: %s", held.body)
	}
	farmer.expect(t, 200, "PATCH", llamas+"/dolly", `{"metadata":{"finalizers":null}}`, merge...)
	farmer.expect(t, 404, "GET", llamas+"/dolly", "")
}

func TestForegroundDeletion(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	farmer.expect(t, 200, "DELETE", llamas+"/dolly?propagationPolicy=Foreground", "")
	held := farmer.expect(t, 200, "GET", llamas+"/dolly", "")
	if diff := cmp.Diff([]any{"foregroundDeletion"}, field(held.object, "metadata", "finalizers")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestACollectionIsDeletedAsFarAsItIsSelected(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	for _, name := range []string{"a", "b", "c"} {
		farmer.expect(t, 201, "POST", llamas, body(name, dollySpec))
	}
	farmer.expect(t, 200, "PATCH", llamas+"/b", `{"metadata":{"labels":{"keep":"me"}}}`, "Content-Type", "application/merge-patch+json")
	farmer.expect(t, 200, "DELETE", llamas+"?labelSelector=!keep", "")
	list := farmer.expect(t, 200, "GET", api+"/llamas", "")
	if items, _ := field(list.object, "items").([]any); len(items) != 1 || field(items[0], "metadata", "name") != "b" {
		t.Errorf("left: %s", list.body)
	}
}

func TestVerbsThatAreNotThereAre405(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		farmer.expect(t, 405, method, api+"/namespaces/default/farmpods", body("x", `{}`))
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
		farmer.expect(t, 405, method, api+"/namespaces/default/farmpods/farm-x", body("x", `{}`))
	}
	farmer.expect(t, 404, "GET", llamas+"/dolly/status", "")
}
