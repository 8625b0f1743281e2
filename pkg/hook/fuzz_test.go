// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json" // which minds the case of names

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/jsonscan"
	"millwright.dev/pkg/testing/jsoncorpus"
)

// FuzzScanner compares with encoding/json: the same texts are accepted, except for those with duplicate keys.
func FuzzScanner(f *testing.F) {
	jsoncorpus.Add(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		s := scanner{Scanner: jsonscan.Scanner{Text: text}}
		_, err := s.value()
		if err == nil {
			err = s.End()
		}
		if _, ambiguous := err.(*fault); ambiguous {
			_ = err.Error()
			return
		}
		if accepted, valid := err == nil, json.Valid(text); accepted != valid {
			t.Errorf("accepted is %t (%v), valid is %t: %q", accepted, err, valid, text)
		}
	})
}

// FuzzDecodeComposite compares with encoding/json what is read of an answer.
func FuzzDecodeComposite(f *testing.F) {
	for _, seed := range slices.Concat(jsoncorpus.Valid, jsoncorpus.Invalid) {
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

func FuzzNewCompositeRequest(f *testing.F) {
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

// bigAnswer returns an answer with N Deployments of 3.4 kB.
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
