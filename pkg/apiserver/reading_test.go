// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const tableType = "application/json;as=Table;g=meta.k8s.io;v=v1"

func TestATableShowsWhatTheUserWrote(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	farmer.expect(t, 201, "POST", llamas, body("polly", `{"weight":1000,"height":2}`))
	answer := farmer.expect(t, 200, "GET", llamas, "", "Accept", tableType)
	var table metav1.Table
	if err := json.Unmarshal(answer.body, &table); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, column := range table.ColumnDefinitions {
		got = append(got, column.Name)
	}
	for _, row := range table.Rows {
		line, _ := json.Marshal(row.Cells[:3])
		got = append(got, string(line))
	}
	if diff := cmp.Diff([]string{"Name", "Weight", "Height", "Age", `["dolly",31.4,0.5]`, `["polly",1000,2]`}, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	list := farmer.expect(t, 200, "GET", llamas, "")
	if table.ResourceVersion == "" || table.ResourceVersion != field(list.object, "metadata", "resourceVersion") {
		t.Errorf("the table is of resourceVersion %q", table.ResourceVersion)
	}
}

func TestMetadataAloneCanBeRead(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	list := farmer.expect(t, 200, "GET", llamas, "", "Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	item := field(list.object, "items").([]any)[0]
	if field(list.object, "kind") != "PartialObjectMetadataList" || field(item, "metadata", "name") != "dolly" || field(item, "spec") != nil {
		t.Errorf("%s", list.body)
	}
	// Metadata has a protobuf form, which the informers of kube-controller-manager prefer.
	const both = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	short := farmer.expect(t, 200, "GET", llamas, "", "Accept", both)
	if !strings.HasPrefix(string(short.body), "k8s\x00") {
		t.Errorf("%q", short.body)
	}
}

func TestProtobufAloneIsRefusedAndElseNotChosen(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	const protobuf = "application/vnd.kubernetes.protobuf"
	farmer.expect(t, 406, "GET", llamas, "", "Accept", protobuf)
	second := farmer.expect(t, 200, "GET", llamas, "", "Accept", protobuf+",application/json")
	if got := second.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("answered in %s", got)
	}
	farmer.expect(t, 415, "POST", llamas, "k8s\x00", "Content-Type", protobuf)
}

func TestDiscovery(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	aggregated := farmer.expect(t, 200, "GET", "/apis", "", "Accept", accept)
	for _, resource := range field(field(field(aggregated.object, "items").([]any)[0], "versions").([]any)[0], "resources").([]any) {
		switch field(resource, "resource") {
		case "llamas":
			want := []any{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
			if diff := cmp.Diff(want, field(resource, "verbs")); diff != "" || field(resource, "subresources") != nil {
				t.Errorf("llamas: %s %v", diff, resource)
			}
			got := []any{field(resource, "shortNames"), field(resource, "categories"), field(resource, "singularResource"), field(resource,
				"responseKind", "kind"), field(resource, "scope")}
			if diff := cmp.Diff([]any{[]any{"ll"}, []any{"farm", "millwright"}, "llama", "Llama", "Namespaced"}, got); diff != "" {
				t.Errorf("llamas: want (-), got (+):\n%s", diff)
			}
		case "farmpods":
			want := []any{[]any{"get", "list", "watch"}, []any{"fp"}, []any{"farm", "millwright"}}
			if diff := cmp.Diff(want, []any{field(resource, "verbs"), field(resource, "shortNames"), field(resource, "categories")}); diff != "" {
				t.Errorf("farmpods: want (-), got (+):\n%s", diff)
			}
		default:
			t.Errorf("resource %v", resource)
		}
	}
	farmer.expect(t, 304, "GET", "/apis", "", "Accept", accept, "If-None-Match", aggregated.header.Get("ETag"))
	for path, kind := range map[string]string{"/apis": "APIGroupList", "/apis/farm.example.com": "APIGroup", api: "APIResourceList"} {
		if legacy := farmer.expect(t, 200, "GET", path, ""); field(legacy.object, "kind") != kind {
			t.Errorf("%s: %s", path, legacy.body)
		}
	}
	if version := field(farmer.expect(t, 200, "GET", api, "").object, "groupVersion"); version != "farm.example.com/v1alpha" {
		t.Errorf("groupVersion %v", version)
	}
}

func TestOpenAPIDescribesTheFarmAndNothingElse(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	const model = "dev.millwright.pkg.apis.farm.v1alpha.Llama"
	for path, models := range map[string][]string{
		"/openapi/v2": {"definitions"},
		"/openapi/v3/apis/farm.example.com/v1alpha": {"components", "schemas"},
	} {
		document := farmer.expect(t, 200, "GET", path, "", "Accept", "application/json")
		schemas, _ := field(document.object, models...).(map[string]any)
		if got := field(schemas[model+"Spec"], "properties", "weight", "description"); got != "weight in kilograms; more than 0, and at most 1000." {
			t.Errorf("%s: the weight is described as %v", path, got)
		}
		kinds := field(schemas[model], "x-kubernetes-group-version-kind")
		if diff := cmp.Diff([]any{map[string]any{"group": "farm.example.com", "kind": "Llama", "version": "v1alpha"}}, kinds); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		for name := range schemas {
			if !isServed(name) {
				t.Errorf("%s has the model %s", path, name)
			}
		}
	}
	for name := range models(func(string) spec.Ref { return spec.Ref{} }) {
		if !isServed(name) {
			t.Errorf("the model %s stays in memory", name)
		}
	}
}

func isServed(model string) bool {
	return strings.HasPrefix(model, "dev.millwright.pkg.apis.farm.") || strings.HasPrefix(model, "io.k8s.apimachinery.")
}

func TestTheVersionIsThatOfTheProgram(t *testing.T) {
	version := start(t).as(t, "farmer").expect(t, 200, "GET", "/version", "")
	if got := field(version.object, "gitVersion"); got != "test" {
		t.Errorf("version %v", got)
	}
}

func TestSelectorsSelect(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	farmer.expect(t, 201, "POST", llamas, body("polly", dollySpec))
	farmer.expect(t, 200, "PATCH", llamas+"/polly", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	for query, want := range map[string]int{
		"labelSelector=a=b": 1, "labelSelector=a!=b": 1, "labelSelector=c": 0, "fieldSelector=metadata.name=dolly": 1,
		"fieldSelector=metadata.namespace=default": 2, "fieldSelector=metadata.namespace=other": 0, "limit=1": 1,
	} {
		list := farmer.expect(t, 200, "GET", api+"/llamas?"+query, "")
		if items, _ := field(list.object, "items").([]any); len(items) != want {
			t.Errorf("%s: %d items", query, len(items))
		}
	}
	farmer.expect(t, 400, "GET", llamas+"?fieldSelector=spec.weight=1", "")
}

func TestWatchStartsWithCurrentState(t *testing.T) {
	farmer := start(t).as(t, "farmer")
	farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	events := farmer.watch(t, llamas+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	first, mark := events.next(t), events.next(t)
	if first.Type != string(watch.Added) || field(first.object, "metadata", "name") != "dolly" {
		t.Errorf("first %v", first)
	}
	if mark.Type != string(watch.Bookmark) || field(mark.object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
		t.Errorf("second %v", mark)
	}
	farmer.expect(t, 200, "DELETE", llamas+"/dolly", "")
	if gone := events.next(t); gone.Type != string(watch.Deleted) || field(gone.object, "spec", "weight") != 31.4 {
		t.Errorf("third %v", gone)
	}
}
