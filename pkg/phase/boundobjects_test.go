// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/jsonscan"
)

// An object is refused by what it takes in memory, before it is decoded. A smaller one is read if the caller admits it, and the metadata of any one. An error
// of the API server is passed on.
func TestBoundObjects(t *testing.T) {
	dense := "[" + strings.Repeat(`{"":0},`, 50_000) + "0]"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := map[string]string{"long": `"` + strings.Repeat("x", 1_000_000) + `"`, "dense": dense, "cut": dense}[r.URL.Path[len("/api/v1/things/"):]]
		managed := "[]"
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/dense"):
			managed = dense
		case strings.HasSuffix(r.URL.Path, "/fails"):
			w.WriteHeader(http.StatusServiceUnavailable)
			text = dense
		case strings.HasSuffix(r.URL.Path, "/cut"):
			w.Header().Set("Content-Length", "1000000")
		}
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"t","uid":"u","managedFields":`+managed+`,"labels":{"a":"b"}},"a":`+text+`}`)
	}))
	defer server.Close()
	client, err := dynamic.NewForConfig(BoundObjects(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	things := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "things"})

	_, err = things.Get(t.Context(), "dense", metav1.GetOptions{})
	if message, ok := FailureOf(err); !ok || message != "ObjectTooLarge: the object takes more than 16777216 bytes of memory when it is read" {
		t.Errorf("a dense object of 350 kB: got %v", err)
	}
	long, err := things.Get(t.Context(), "long", metav1.GetOptions{})
	if err != nil || len(long.Object["a"].(string)) != 1_000_000 {
		t.Errorf("an object of 1 MB: got %v", err)
	}
	admitted, refusal := 0, errors.New("no")
	_, err = things.Get(WithAdmission(t.Context(), func(memory int) error {
		admitted = memory
		return refusal
	}), "long", metav1.GetOptions{})
	content, _ := long.MarshalJSON()
	if want := jsonscan.DecodedMemory(content); !errors.Is(err, refusal) || admitted < want-100 || admitted > want+100 {
		t.Errorf("an object that is not admitted, of %d bytes: got %v, asked for %d", want, err, admitted)
	}

	ctx, reads := CountReads(OnlyMetadata(t.Context()))
	for verb, answer := range map[string]func() (*unstructured.Unstructured, error){
		"get": func() (*unstructured.Unstructured, error) { return things.Get(ctx, "dense", metav1.GetOptions{}) },
		"patch": func() (*unstructured.Unstructured, error) {
			return things.Patch(ctx, "dense", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		},
	} {
		found, err := answer()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "t", "uid": "u", "labels": map[string]any{"a": "b"}},
		}
		if diff := cmp.Diff(want, found.Object); diff != "" {
			t.Errorf("%s of only the metadata (-want +got):\n%s", verb, diff)
		}
	}
	if requests, memory := reads.Requests.Load(), int(reads.Memory.Load()); requests != 2 || memory < 4*jsonscan.DecodedMemory([]byte(dense)) {
		t.Errorf("got %d requests whose answers take %d bytes of memory, want 2 and those of the whole objects", requests, memory)
	}
	if _, err = things.Get(t.Context(), "fails", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("an answer with an error: got %v", err)
	}
	if _, err = things.Get(t.Context(), "cut", metav1.GetOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer that is cut: got %v", err)
	}
}
