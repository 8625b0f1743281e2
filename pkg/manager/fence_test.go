// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestWriteFence(t *testing.T) {
	var mu sync.Mutex
	var reached []string
	var userAgent string
	// A server, because the fence and the user agent are below the client.
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, r.Method)
		userAgent = r.UserAgent()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`))
	}))
	defer apiServer.Close()
	defer apiServer.CloseClientConnections()

	notLeading := errors.New("this process does not lead")
	leads := false
	_, client, err := newRESTClients(&rest.Config{Host: apiServer.URL}, "v1.2.3").clients("foo", func() error {
		if leads {
			return nil
		}
		return notLeading
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	writes := map[string]func() error{
		"POST": func() error { _, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{}); return err },
		"PUT":  func() error { _, err := pods.Update(t.Context(), pod("x"), metav1.UpdateOptions{}); return err },
		"PATCH": func() error {
			_, err := pods.Patch(t.Context(), "x", types.MergePatchType, nil, metav1.PatchOptions{})
			return err
		},
		"DELETE": func() error { return pods.Delete(t.Context(), "x", metav1.DeleteOptions{}) },
	}
	for method, write := range writes {
		if err := write(); !errors.Is(err, notLeading) || !strings.Contains(err.Error(), "not sent") {
			t.Errorf("%s while another process leads: %v, want it refused", method, err)
		}
	}
	if len(reached) > 0 {
		t.Errorf("%v reached the API server", reached)
	}
	if _, err := pods.Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Errorf("a read while another process leads: %v", err)
	}
	leads = true
	for method, write := range writes {
		if err := write(); err != nil {
			t.Errorf("%s while we lead: %v", method, err)
		}
	}
	if len(reached) != 1+len(writes) {
		t.Errorf("%v reached the API server", reached)
	}
	if !strings.HasPrefix(userAgent, "millwright/v1.2.3 (") || !strings.HasSuffix(userAgent, " foo") {
		t.Errorf("User-Agent: %s", userAgent)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}
