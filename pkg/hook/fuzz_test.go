// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json" // which minds the case of names

	"github.com/google/go-cmp/cmp"
)

var someJSON = []string{
	`{}`, `[]`, `null`, ` {"a" : [1, -0.5e+3, true, false, null, "x\u00e9\n\\\""]} `, `{"a":1,"a":2}`, `{"a":{"b":[{}]}}`, `"`, `"\`, `"\u12`, `01`, `-`, `1.`, `1e`,
	`{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `{,}`, `tru`, "\"\x01\"", "\"\xff\"", `{} {}`, `"\ud800"`, "\ufeff{}", `{"":{"":1,"":2}}`,
}

func FuzzTheScannerAcceptsTheJSONThatEncodingJSONAccepts(f *testing.F) {
	for _, seed := range someJSON {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{data: data}
		_, err := s.value()
		if err == nil {
			err = s.end()
		}
		if _, ambiguous := err.(*fault); ambiguous {
			_ = err.Error()
			return
		}
		if accepted, valid := err == nil, json.Valid(data); accepted != valid {
			t.Errorf("accepted is %t (%v), valid is %t: %q", accepted, err, valid, data)
		}
	})
}

func FuzzAnAnswerIsReadAsEncodingJSONReadsIt(f *testing.F) {
	for _, seed := range someJSON {
		f.Add([]byte(seed))
		f.Add([]byte(`{"status":` + seed + `}`))
		f.Add([]byte(`{"children":[` + child(`,"data":`+seed) + `],"resyncAfterSeconds":1.5,"finalized":true}`))
	}
	f.Add([]byte(`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","labels":{"a":"b","c":"d"}}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeComposite(body, rulesFor("ns", true))
		if err != nil {
			if ReasonOf(err) == "" || got != nil || len(err.Error()) > 2000 {
				t.Errorf("response %v with error %v", got, err)
			}
			return
		}
		var want struct {
			Status   json.RawMessage `json:"status"`
			Children []struct {
				Metadata struct {
					Name   string            `json:"name"`
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
			} `json:"children"`
			Finalized bool `json:"finalized"`
		}
		if err := utiljson.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted %q, which is wrong: %v", body, err)
		}
		if len(want.Children) != len(got.Children) || want.Finalized != got.Finalized {
			t.Fatalf("read %+v, want %+v", got, want)
		}
		for i, child := range got.Children {
			var stored any
			if err := json.Unmarshal(child.JSON, &stored); err != nil {
				t.Errorf("JSON of a child: %v", err)
			}
			if read := fmt.Sprint(child.Labels.asMap()); child.Name != want.Children[i].Metadata.Name || read != fmt.Sprint(want.Children[i].Metadata.Labels) {
				t.Errorf("child %d is %+v, want %+v", i, child, want.Children[i])
			}
		}
	})
}

// asMap is for comparing.
func (l Labels) asMap() map[string]string {
	var m map[string]string
	for _, label := range l {
		if m == nil {
			m = map[string]string{}
		}
		m[label.Key] = label.Value
	}
	return m
}

func FuzzARequestIsWhatEncodingJSONWouldMake(f *testing.F) {
	f.Add("ns", "a", "other", "b", true)
	f.Add("", "quo\"te", "\xff", "\n", false)
	f.Fuzz(func(t *testing.T, namespace, first, otherNamespace, second string, finalizing bool) {
		for _, text := range []string{namespace, first, otherNamespace, second} {
			if !utf8.ValidString(text) {
				return // no name in Kubernetes is like that
			}
		}
		objects := []Object{{namespace, first, `{"n":1}`}, {otherNamespace, second, `{"n":2}`}}
		want := map[string]any{}
		for i, object := range objects {
			key := object.Name
			if object.Namespace != "" {
				key = object.Namespace + "/" + key
			}
			want[key] = map[string]any{"n": float64(i + 1)}
		}
		if len(want) < 2 {
			return // the same object twice
		}
		r := NewCompositeRequest(V2, CompositeRequest{Controller: `{}`, Parent: `{}`, Children: []Group{{"v1", "X", objects}}, Finalizing: finalizing})
		body, err := io.ReadAll(r.open())
		var got struct {
			Children   map[string]map[string]any
			Finalizing bool
		}
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || got.Finalizing != finalizing || int64(len(body)) != r.Len() {
			t.Fatalf("body %q, error %v", body, err)
		}
		if diff := cmp.Diff(want, got.Children["X.v1"]); diff != "" {
			t.Error(diff)
		}
	})
}

// bigAnswer is one with n Deployments of 3.4 kB.
func bigAnswer(children int) []byte {
	list := make([]string, children)
	for i := range list {
		list[i] = bigChild(fmt.Sprintf("child-%05d", i))
	}
	return []byte(`{"status":{"replicas":3},"children":[` + strings.Join(list, ",") + `]}`)
}

func BenchmarkDecodeAnswerWith100Children(b *testing.B) {
	body := bigAnswer(100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeComposite(body, Rules{ParentNamespace: "default", Types: someTypes}); err != nil {
			b.Fatal(err)
		}
	}
}

// What it costs to decode the same into trees, as most engines do.
func BenchmarkDecodeAnswerWith100ChildrenIntoTrees(b *testing.B) {
	body := bigAnswer(100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var tree map[string]any
		if err := json.Unmarshal(body, &tree); err != nil {
			b.Fatal(err)
		}
	}
}
