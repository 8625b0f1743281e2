// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// server answers requests as a test says, one after the other, the last answer again and again, and writes down what it was asked.
// It is scripted because the tests compare bytes: requests as they are sent, and answers that no API server in memory gives.
type server struct {
	t       testing.TB
	answers []http.HandlerFunc

	mu       sync.Mutex
	requests []string
}

// newServer returns a storage whose records are at a server with these answers.
func newServer(t testing.TB, answers ...http.HandlerFunc) (storage.Interface, *server) {
	t.Helper()
	s := &server{t: t, answers: answers}
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	store, err := NewLlamas(&rest.Config{Host: http.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.(*llamaStore).records.client.Client.CloseIdleConnections)
	return store, s
}

// llamaStore is the storage of Llamas.
type llamaStore = store[farmv1alpha.Llama, *farmv1alpha.Llama]

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	request := r.Method + " " + r.URL.RequestURI()
	if len(body) != 0 {
		request += " " + string(body)
	}
	s.requests = append(s.requests, request)
	answer := s.answers[min(len(s.requests), len(s.answers))-1]
	s.mu.Unlock()
	answer(w, r)
}

// asked returns the requests since the last call.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// answering answers with JSON.
func answering(code int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if text, ok := body.(string); ok {
			fmt.Fprint(w, text)
			return
		}
		json.NewEncoder(w).Encode(body)
	}
}

func refusing(err *apierrors.StatusError) http.HandlerFunc {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return answering(int(status.Code), status)
}

var recordsResource = schema.GroupResource{Group: "storage.farm.example.com", Resource: "llamarecords"}

// recordOf is a record as the API server sends it.
func recordOf(name string, resourceVersion int, object string) string {
	return fmt.Sprintf(`{"apiVersion":"storage.farm.example.com/v1","kind":"LlamaRecord","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",`+
		`"name":%q,"namespace":"default","resourceVersion":"%d","uid":"of-the-record"},"spec":{"object":%s}}`, name, resourceVersion, object)
}

func llamaOf(name string, weight any) string {
	return fmt.Sprintf(`{"apiVersion":"farm.example.com/v1alpha","kind":"Llama","metadata":{"name":%q,"namespace":"default","uid":"of-the-llama"},`+
		`"spec":{"height":0.5,"weight":%v}}`, name, weight)
}

func dolly(resourceVersion int, weight float64) string {
	return recordOf("dolly", resourceVersion, llamaOf("dolly", weight))
}
