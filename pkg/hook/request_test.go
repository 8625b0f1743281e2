// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func bodyOf(t testing.TB, r *Request) string {
	t.Helper()
	var b strings.Builder
	n, err := r.WriteTo(&b)
	if err != nil || n != r.Len() || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes, returned %d, error %v", b.Len(), r.Len(), n, err)
	}
	return b.String()
}

// someObjects are in and out of the namespace ns, and cluster-scoped.
var someObjects = []Object{
	{"ns", "b", `{"n":"ns/b"}`}, {"", "c", `{"n":"c"}`}, {"other", "a", `{"n":"other/a"}`}, {"ns", "a", `{"n":"ns/a"}`},
}

func TestObjectKeys(t *testing.T) {
	const uniform = `{"c":{"n":"c"},"ns/a":{"n":"ns/a"},"ns/b":{"n":"ns/b"},"other/a":{"n":"other/a"}}`
	for _, test := range []struct {
		name, parentNamespace string
		version               Version
		want                  string
	}{
		{"v1, a namespaced parent sees its own namespace alone", "ns", V1, `{"a":{"n":"ns/a"},"b":{"n":"ns/b"}}`},
		{"v1, a cluster-scoped parent sees everything", "", V1, uniform},
		{"v2, a namespaced parent sees everything", "ns", V2, uniform},
		{"v2, a cluster-scoped parent sees everything", "", V2, uniform},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := CompositeRequest{Controller: `{"c":1}`, Parent: `{"p":1}`, ParentNamespace: test.parentNamespace,
				Children: []Group{{APIVersion: "v1", Kind: "Pod", Objects: someObjects}, {APIVersion: "apps/v1", Kind: "Deployment"}},
				Related:  []Group{{APIVersion: "v1", Kind: "Secret", Objects: someObjects}}}
			want := `{"controller":{"c":1},"parent":{"p":1},"children":{"Deployment.apps/v1":{},"Pod.v1":` + test.want + `},"related":{"Secret.v1":` + test.want + `},"finalizing":false}`
			if diff := cmp.Diff(want, bodyOf(t, NewCompositeRequest(test.version, request))); diff != "" {
				t.Error(diff)
			}
			decorator := DecoratorRequest{Controller: request.Controller, Object: request.Parent, ObjectNamespace: request.ParentNamespace,
				Attachments: request.Children, Related: request.Related, Finalizing: true}
			want = strings.NewReplacer(`"parent":`, `"object":`, `"children":`, `"attachments":`, `"finalizing":false`, `"finalizing":true`).Replace(want)
			if diff := cmp.Diff(want, bodyOf(t, NewDecoratorRequest(test.version, decorator))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if someObjects[0].Name != "b" {
		t.Error("the caller's objects were put into another order")
	}
}

func TestRequestAboutAnotherStateOfTheParent(t *testing.T) {
	request, _ := bigRequest(2)
	first := NewCompositeRequest(V1, request)
	unchanged := bodyOf(t, first)
	request.Parent = `{"another":"one"}`
	if diff := cmp.Diff(bodyOf(t, NewCompositeRequest(V1, request)), bodyOf(t, first.WithParent(request.Parent))); diff != "" {
		t.Error(diff)
	}
	if bodyOf(t, first) != unchanged {
		t.Error("the first request was changed")
	}
}

func TestARequestWithNothingInItIsWhole(t *testing.T) {
	got := bodyOf(t, NewCompositeRequest(V1, CompositeRequest{Controller: `{}`, Parent: `{}`, Finalizing: true}))
	if want := `{"controller":{},"parent":{},"children":{},"related":{},"finalizing":true}`; got != want {
		t.Errorf("request is %s, want %s", got, want)
	}
}

func TestNamesOfAnyKindAreLegalKeys(t *testing.T) {
	names := []string{"system:node", `quo"te`, `back\slash`, "new\nline", "ümlaut", "\x7f", "<&>", "\u2028", "\xff"}
	var objects []Object
	for _, name := range names {
		objects = append(objects, Object{Name: name, JSON: `{}`})
	}
	var got struct {
		Children map[string]map[string]any `json:"children"`
	}
	body := bodyOf(t, NewCompositeRequest(V2, CompositeRequest{Controller: `{}`, Parent: `{}`, Children: []Group{{"v1", "Odd", objects}}}))
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, found := got.Children["Odd.v1"][strings.ToValidUTF8(name, "\uFFFD")]; !found {
			t.Errorf("no object %q in %s", name, body)
		}
	}
}

func TestTheOrderOfTheCacheDoesNotShowInTheRequest(t *testing.T) {
	request, _ := bigRequest(100)
	want := bodyOf(t, NewCompositeRequest(V1, request))
	for range 10 {
		objects := request.Children[0].Objects
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		if bodyOf(t, NewCompositeRequest(V1, request)) != want {
			t.Fatal("another order makes another request")
		}
	}
}

func TestARequestCanBeReadInAnyPiecesAndAgain(t *testing.T) {
	request, _ := bigRequest(3)
	r := NewCompositeRequest(V1, request)
	want := bodyOf(t, r)
	for range 2 {
		if err := iotest.TestReader(r.open(), []byte(want)); err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(iotest.OneByteReader(r.open()))
		if err != nil || string(got) != want {
			t.Errorf("read %d bytes with error %v, want %d", len(got), err, len(want))
		}
	}
}

// bigRequest is one with n Deployments of 3.4 kB, and the size of the objects in it.
func bigRequest(children int) (CompositeRequest, int) {
	size := 0
	objects := make([]Object, children)
	for i := range objects {
		name := fmt.Sprintf("child-%05d", i)
		objects[i] = Object{Namespace: "default", Name: name, JSON: bigChild(name)}
		size += len(objects[i].JSON)
	}
	return CompositeRequest{Controller: bigChild("controller"), Parent: bigChild("parent"), ParentNamespace: "default",
		Children: []Group{{APIVersion: "apps/v1", Kind: "Deployment", Objects: objects}}}, size
}

// bigChild is a Deployment of 3.4 kB.
func bigChild(name string) string {
	var env strings.Builder
	for i := 0; env.Len() < 2900; i++ {
		fmt.Fprintf(&env, `{"name":"VARIABLE_%02d","value":"some value of \"%d\""},`, i, i)
	}
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app":"demo","tier":"web"},"name":%q,"namespace":"default"},`+
		`"spec":{"replicas":3,"selector":{"matchLabels":{"app":"demo"}},"template":{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[`+
		`{"name":"main","image":"registry.example.com/demo:1.2.3","env":[%s],"ports":[{"containerPort":8080,"protocol":"TCP"}],`+
		`"resources":{"limits":{"cpu":"500m","memory":"128Mi"}}}]}}}}`, name, strings.TrimSuffix(env.String(), ","))
}

func BenchmarkAssembleRequestWith100Children(b *testing.B) {
	request, _ := bigRequest(100)
	b.ReportAllocs()
	for b.Loop() {
		r := NewCompositeRequest(V1, request)
		b.SetBytes(r.Len())
	}
}

func BenchmarkAssembleRequest(b *testing.B) {
	request, _ := bigRequest(100)
	buffer := make([]byte, 32<<10)
	b.ReportAllocs()
	for b.Loop() {
		r := NewCompositeRequest(V1, request)
		b.SetBytes(r.Len())
		for body := r.open(); ; {
			if _, err := body.Read(buffer); err == io.EOF {
				break
			}
		}
	}
}

// What it costs to encode the same from trees, as most engines do.
func BenchmarkEncodeRequest(b *testing.B) {
	request, _ := bigRequest(100)
	children := map[string]any{}
	for _, object := range request.Children[0].Objects {
		var tree map[string]any
		if err := json.Unmarshal([]byte(object.JSON), &tree); err != nil {
			b.Fatal(err)
		}
		children[object.Name] = tree
	}
	b.ReportAllocs()
	for b.Loop() {
		body, err := json.Marshal(map[string]any{"children": map[string]any{"Deployment.apps/v1": children}})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

func TestTheBenchmarksAreOfTheSizeThatTheySay(t *testing.T) {
	if size := len(bigChild("child-00001")); size < 3300 || size > 3500 {
		t.Errorf("a child has %d bytes, want about 3.4 kB", size)
	}
	if !json.Valid([]byte(bigChild("x"))) {
		t.Error("a child is no JSON")
	}
}
