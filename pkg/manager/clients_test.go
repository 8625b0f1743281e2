// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/deadline"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// hangingServer accepts every request and answers none, as a proxy does whose API server is lost. Requests are the paths asked for.
func hangingServer(t *testing.T) (config *Config, requests chan string) {
	t.Helper()
	outsideOfCluster(t)
	release, requests := make(chan struct{}), make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		requests <- req.URL.RequestURI()
		<-release
	}))
	t.Cleanup(func() { close(release); server.Close() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := parse(t, "--kubeconfig="+kubeconfig, "--kube-api-timeout=1s").Config("v1")
	if err != nil {
		t.Fatal(err)
	}
	return config, requests
}

func always() error { return nil }

func TestNoClientOfTheProcessWaitsForEver(t *testing.T) {
	config, _ := hangingServer(t)
	ours, kube, err := config.clients.clients("toy", always)
	if err != nil {
		t.Fatal(err)
	}
	review, err := config.reviewClient()
	if err != nil {
		t.Fatal(err)
	}
	raw := config.clients.restConfig("toy", always)
	any, err := dynamic.NewForConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := objectwriter.New(raw)
	if err != nil {
		t.Fatal(err)
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	ctx := t.Context()
	results := map[string]chan error{}
	for name, request := range map[string]func() error{
		"get of a built-in kind": func() error { _, err := kube.CoreV1().Pods("x").Get(ctx, "x", metav1.GetOptions{}); return err },
		"event": func() error {
			_, err := kube.CoreV1().Events("x").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		},
		"get of a kind of ours": func() error { _, err := ours.AppsV1().HelloApps("x").Get(ctx, "x", metav1.GetOptions{}); return err },
		"discovery":             func() error { return discover(ctx, kube) },
		"review of a token":     func() error { return discover(ctx, review) },
		"dynamic":               func() error { _, err := any.Resource(pods).Namespace("x").List(ctx, metav1.ListOptions{}); return err },
		"metadata": func() error {
			_, err := meta.Resource(pods).Namespace("x").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"writer of any kind": func() error {
			_, err := writer.Get(ctx, objectwriter.Name{Resource: pods, Namespace: "x", Name: "x"})
			return err
		},
	} {
		result := make(chan error, 1)
		results[name] = result
		go func() { result <- request() }()
	}
	for name, result := range results {
		if err := <-result; !errors.As(err, new(*deadline.Error)) {
			t.Errorf("%s: got error %v, want one of a deadline", name, err)
		}
	}
}

func discover(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.Discovery().ServerGroupsWithContext(ctx)
	return err
}

func TestUnansweredListAndWatch(t *testing.T) {
	config, requests := hangingServer(t)
	_, kube, err := config.clients.informerClients("informers", always)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = kube.CoreV1().Pods("x").List(ctx, metav1.ListOptions{})
		ended <- struct{}{}
	}()
	go func() {
		_, _ = kube.CoreV1().Services("x").Watch(ctx, metav1.ListOptions{})
		ended <- struct{}{}
	}()
	seen := map[string]int{}
	for seen["/api/v1/namespaces/x/pods"] < 2 || seen["/api/v1/namespaces/x/services?watch=true"] < 2 {
		seen[<-requests]++
	}
	stop()
	<-ended
	<-ended
}

// TestOptionalWatchMayBeForbidden: a process polls the Lease of its leader election if it may not watch it, and is ready nevertheless.
func TestOptionalWatchMayBeForbidden(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	for _, test := range []struct {
		optional bool
		failing  int
	}{{true, 0}, {false, 1}} {
		clients := newRESTClients(&rest.Config{Host: server.URL}, "test")
		client, err := clients.optionalClient("leader-election", always)
		if !test.optional {
			_, client, err = clients.informerClients("informers", always)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoordinationV1().Leases("x").Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Fatalf("got error %v, want it forbidden", err)
		}
		clients.stalls.mu.Lock()
		if n := len(clients.stalls.open); n != test.failing {
			t.Errorf("optional %t: %d watches fail, want %d", test.optional, n, test.failing)
		}
		clients.stalls.mu.Unlock()
	}
}
