// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// appliedAs is an object that server-side apply has written: with the hash of what was applied.
func appliedAs(t *testing.T, observed, desired map[string]any) map[string]any {
	t.Helper()
	hash, err := appliedHash(child(desired))
	if err != nil {
		t.Fatal(err)
	}
	object := stored(child(observed), "")
	setRecord(object, AppliedHashAnnotation, hash)
	return object
}

func TestApplyVerdicts(t *testing.T) {
	const value, other, both = "data: {a: one}", "data: {a: two}", "data: {a: one, b: two}"
	const copied = "{data: {a: one}, metadata: {resourceVersion: '3', uid: x, ownerReferences: [], managedFields: []}}"
	unsure := Verdict{Differs: true, DesiredChanged: true, RecordOnly: true, MayRemove: true}
	for name, test := range map[string]struct {
		observed map[string]any
		desired  string
		want     Verdict
	}{
		"as applied":           {appliedAs(t, tree(t, value), tree(t, value)), value, Verdict{}},
		"with more":            {appliedAs(t, tree(t, "data: {a: one, b: theirs}"), tree(t, value)), value, Verdict{}},
		"edited":               {appliedAs(t, tree(t, other), tree(t, value)), value, Verdict{Differs: true}},
		"desired otherwise":    {appliedAs(t, tree(t, value), tree(t, value)), other, Verdict{Differs: true, DesiredChanged: true, MayRemove: true}},
		"less is desired":      {appliedAs(t, tree(t, both), tree(t, both)), value, unsure},
		"never applied":        {stored(child(tree(t, value)), ""), value, Verdict{Differs: true, DesiredChanged: true, RecordOnly: true, MayRemove: true, Unrecorded: true}},
		"by the other way":     {recording(t, tree(t, value), tree(t, value)), value, Verdict{}},
		"changed since then":   {recording(t, tree(t, value), tree(t, value)), other, Verdict{Differs: true, DesiredChanged: true, Switched: true}},
		"reduced since then":   {recording(t, tree(t, both), tree(t, both)), value, Verdict{Differs: true, DesiredChanged: true, Switched: true}},
		"with a copied record": {appliedAs(t, tree(t, value), tree(t, value)), copied, Verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Apply(test.observed, child(tree(t, test.desired)))
			if err != nil {
				t.Fatal(err)
			}
			got.Object = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// managedBy is what an object with these managedFields is like: each entry is "manager operation fieldsV1", or "manager:apiVersion operation fieldsV1".
func managedBy(t *testing.T, object map[string]any, entries ...string) map[string]any {
	t.Helper()
	var list []any
	for _, entry := range entries {
		parts := strings.SplitN(entry, " ", 3)
		manager, version, found := strings.Cut(parts[0], ":")
		if !found {
			version = "example.com/v1"
		}
		list = append(list, map[string]any{"manager": manager, "operation": parts[1], "apiVersion": version, "fieldsV1": tree(t, parts[2])})
	}
	object["metadata"].(map[string]any)["managedFields"] = list
	return object
}

const portsOf = `{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{},"f:name":{}},"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}}}}`

func TestOwnedPart(t *testing.T) {
	observed := tree(t, `{spec: {ports: [{port: 53, protocol: TCP, name: a, nodePort: 1}, {port: 53, protocol: UDP, nodePort: 2}, {port: 80, protocol: TCP}, {name: x}], type: x},
  metadata: {finalizers: [a, b], labels: {mine: a, theirs: b}, annotations: {millwright.dev/applied-hash: x}}, atomic: {a: {b: c}}}`)
	before := tree(t, encoded(t, observed))
	got := owned(managedBy(t, observed, `m Update {"f:spec":{"f:type":{}}}`, `m Apply {"f:metadata":{"f:finalizers":{"v:\"a\"":{}},"f:labels":{".":{},"f:mine":{},"f:gone":{}},`+
		`"f:annotations":{"f:millwright.dev/applied-hash":{}}},"f:atomic":{},`+portsOf[1:]), "m")
	want := tree(t, `{spec: {ports: [{port: 53, protocol: TCP, name: a}, {port: 53, protocol: UDP}]}, metadata: {finalizers: [a], labels: {mine: a}}, atomic: {a: {b: c}}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owned part (-want +got):\n%s", diff)
	}
	delete(observed["metadata"].(map[string]any), "managedFields")
	if diff := cmp.Diff(before, observed); diff != "" {
		t.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

// What another manager has, too, is not removed by an apply.
func TestOwnedPartOfSharedFields(t *testing.T) {
	observed := tree(t, `{metadata: {}, data: {mine: a, shared: a}, once: {theirs: a}, labels: {shared: a}, atomic: {a: b}, list: [{name: a, value: mine, type: x}, {name: b, value: shared}]}`)
	const list = `"f:list":{"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:value":{}}`
	got := owned(managedBy(t, observed, `m Apply {"f:data":{"f:mine":{},"f:shared":{}},"f:once":{},"f:labels":{"f:shared":{}},"f:atomic":{},`+
		list+`,"k:{\"type\":\"x\"}":{"f:value":{}}}}`, `x Apply {"f:data":{"f:shared":{}},"f:once":{"f:theirs":{}},"f:labels":{"f:shared":{}},`+list+`}}`), "m")
	want := tree(t, `{data: {mine: a}, atomic: {a: b}, list: [{name: a, value: mine, type: x}]}`) // with what lists are merged by
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owned part (-want +got):\n%s", diff)
	}
	if got := owned(managedBy(t, observed, `m Apply {}`), "m"); got != nil {
		t.Errorf("owned part of no fields: got %v, want nothing", got)
	}
}

func encoded(t *testing.T, object map[string]any) string {
	t.Helper()
	e := &encoder{}
	if err := e.encode(nil, object, 0); err != nil {
		t.Fatal(err)
	}
	return string(e.text)
}

func TestTakeOver(t *testing.T) {
	record := tree(t, `{spec: {ports: [{port: 53}, {port: 53, protocol: UDP}, {port: 80}]}, metadata: {labels: {mine: a}}, status: {a: b}}`)
	labels := `"f:metadata":{"f:labels":{"f:mine":{},"f:theirs":{}}}`
	for name, test := range map[string]struct{ entries, want []string }{
		"of one updater": {
			[]string{`engine Update {` + labels + `}`, `kubelet Update {"f:status":{"f:a":{}}}`},
			[]string{`engine Update {"f:metadata":{"f:labels":{"f:theirs":{}}}}`, `kubelet Update {"f:status":{"f:a":{}}}`, `m Apply {"f:metadata":{"f:labels":{"f:mine":{}}}}`},
		},
		"of several updaters": {
			[]string{`engine Update {` + labels + `}`, `velero Update ` + strings.ReplaceAll(portsOf, `,"f:name":{}`, "")},
			[]string{`engine Update {"f:metadata":{"f:labels":{"f:theirs":{}}}}`,
				`velero Update {"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{"f:protocol":{}}}}}`,
				`m Apply {"f:metadata":{"f:labels":{"f:mine":{}}},"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},` +
					`"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}}}}`},
		},
		"not of a port with another protocol": {
			[]string{`edit Update {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}}}}`}, nil,
		},
		"in addition to what it has applied": {
			[]string{`m Apply {"f:spec":{"f:type":{}}}`, `engine Update {"f:metadata":{"f:labels":{"f:mine":{}}}}`},
			[]string{`m Apply {"f:metadata":{"f:labels":{"f:mine":{}}},"f:spec":{"f:type":{}}}`},
		},
		"of another version": {
			[]string{`m Apply {"f:spec":{"f:type":{}}}`, `engine:old/v1 Update {` + labels + `}`}, nil,
		},
		"of the version that is written now": {
			[]string{`engine:old/v1 Update {"f:spec":{"f:ports":{}}}`, `engine Update {` + labels + `}`},
			[]string{`engine:old/v1 Update {"f:spec":{"f:ports":{}}}`, `engine Update {"f:metadata":{"f:labels":{"f:theirs":{}}}}`, `m Apply {"f:metadata":{"f:labels":{"f:mine":{}}}}`},
		},
		"nothing": {[]string{`engine Update {"f:spec":{"f:type":{}}}`, `other Apply {` + labels + `}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			observed := managedBy(t, recording(t, tree(t, "{}"), record), test.entries...)
			metadata, err := TakeOver(observed, "m")
			if err != nil {
				t.Fatal(err)
			}
			want := entriesOf(managedBy(t, child(nil), test.want...))
			got, _ := metadata["managedFields"].([]map[string]any)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("managedFields (-want +got):\n%s", diff)
			}
			hash, err := appliedHash(child(record))
			if err != nil {
				t.Fatal(err)
			}
			annotations := map[string]any{LastAppliedAnnotation: nil, AppliedHashAnnotation: hash}
			if diff := cmp.Diff(annotations, metadata["annotations"]); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithAppliedHash(t *testing.T) {
	desired := tree(t, "{metadata: {name: c, annotations: {metacontroller.k8s.io/last-applied-configuration: x, mine: a}}, data: {a: b}, status: {c: d}}")
	got, err := WithAppliedHash(desired)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := appliedHash(desired)
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, "{metadata: {name: c, annotations: {mine: a, millwright.dev/applied-hash: "+hash+"}}, data: {a: b}}")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if desired["status"] == nil {
		t.Error("the desired object was changed")
	}
}

func TestUpdateOwned(t *testing.T) {
	applied, desired := tree(t, "{data: {keep: a, drop: a}}"), tree(t, "{data: {keep: b}}")
	observed := managedBy(t, appliedAs(t, tree(t, "{data: {keep: a, drop: a, theirs: c}}"), applied), `m Apply {"f:data":{"f:keep":{},"f:drop":{}}}`, `x Update {"f:data":{"f:theirs":{}}}`)
	got, err := UpdateOwned(observed, child(desired), "m")
	if err != nil {
		t.Fatal(err)
	}
	want := recording(t, tree(t, "{data: {keep: b, theirs: c}}"), desired)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if RemovesOwned(observed, child(applied), "m") {
		t.Error("it removes what is desired")
	}
	if !RemovesOwned(observed, child(tree(t, "{data: {keep: a}}")), "m") {
		t.Error("it removes nothing")
	}
}
