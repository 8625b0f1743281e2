// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// startProxy starts a proxy to an API server with that handler.
func startProxy(t *testing.T, handler http.HandlerFunc) *Proxy {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	proxy, err := StartProxy(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

// echo answers every request with what was sent to it, and reads with NotFound.
func echo(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	}
	w.Header().Set("Content-Type", req.Header.Get("Content-Type"))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, req.Body)
}

func TestAttribution(t *testing.T) {
	proxy := startProxy(t, echo)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: proxy.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}})
	ctx, core := t.Context(), client.CoreV1()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	owned := named("actionset-run-uid")
	owned.OwnerReferences = []metav1.OwnerReference{{Name: "web-00002", Controller: ptr.To(true)}}
	// The answers do not matter, only that the requests were sent.
	_, _ = core.Pods("ns").Create(ctx, &corev1.Pod{ObjectMeta: named("web-00001-immortalpod")}, metav1.CreateOptions{})
	_, _ = core.Events("ns").Create(ctx, &corev1.Event{ObjectMeta: named("web-00001.17")}, metav1.CreateOptions{})
	_, _ = core.Events("ns").Patch(ctx, "web-00001.17", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	_, _ = core.Secrets("ns").Create(ctx, &corev1.Secret{ObjectMeta: owned}, metav1.CreateOptions{})
	_ = core.Secrets("ns").Delete(ctx, owned.Name, metav1.DeleteOptions{})
	_ = core.Secrets("ns").Delete(ctx, "another", metav1.DeleteOptions{})
	_, _ = core.ConfigMaps("ns").Get(ctx, "web-00002-subject", metav1.GetOptions{})
	_, _ = core.Pods("ns").List(ctx, metav1.ListOptions{})
	_, _ = core.Pods("ns").Watch(ctx, metav1.ListOptions{})
	_, _ = client.CoordinationV1().Leases("ns").Update(ctx, &coordinationv1.Lease{ObjectMeta: named("lease")}, metav1.UpdateOptions{})
	_, _ = client.Discovery().ServerVersion()

	got, err := proxy.Take()
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{
		{Verb: "create", Resource: "pods", Object: "web-00001", Code: 201},
		{Verb: "create", Resource: "events", Object: "web-00001", Code: 201},
		{Verb: "patch", Resource: "events", Object: "web-00001", Code: 201},
		{Verb: "create", Resource: "secrets", Object: "web-00002", Code: 201},
		{Verb: "delete", Resource: "secrets", Object: "web-00002", Code: 201},
		{Verb: "delete", Resource: "secrets", Code: 201},
		{Verb: "get", Resource: "configmaps", Object: "web-00002", Code: 404},
		{Verb: "list", Resource: "pods", Code: 404},
	}
	if len(got) != len(want) {
		t.Fatalf("recorded %d requests, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Kind() != want[i].Kind() || got[i].Object != want[i].Object || got[i].Code != want[i].Code {
			t.Errorf("request %d is %s %q %d, want %+v", i, got[i].Kind(), got[i].Object, got[i].Code, want[i])
		}
	}
	if again, _ := proxy.Take(); len(again) != 0 {
		t.Errorf("taken again, there are still %d requests", len(again))
	}
}

// TestRecordedRequest sends two requests concurrently, and one after them.
func TestRecordedRequest(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	owner := []metav1.OwnerReference{{Name: "web-00001", Controller: ptr.To(true)}}
	answered := v1alpha1.Switch{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "some-uid", ResourceVersion: "17", OwnerReferences: owner}}
	proxy := startProxy(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			both.Done()
			both.Wait()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answered)
	})
	switches := versioned.NewForConfigOrDie(&rest.Config{Host: proxy.URL}).UselessV1alpha1().Switches("ns")
	var creators sync.WaitGroup
	for range 2 {
		creators.Go(func() {
			if _, err := switches.Create(context.Background(), answered.DeepCopy(), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	creators.Wait()
	body := `{"spec":{"position":"down"}}`
	if _, err := switches.Patch(t.Context(), "s", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "us"}); err != nil {
		t.Fatal(err)
	}
	got, err := proxy.Take()
	if err != nil || len(got) != 3 {
		t.Fatalf("recorded %d requests (%v), want 3", len(got), err)
	}
	if got[1].Began > got[0].Answered || got[0].Began > got[1].Answered {
		t.Errorf("the first two are recorded as one after the other: %+v, %+v", got[0], got[1])
	}
	r := got[2]
	if r.Began < got[0].Answered || r.Began < got[1].Answered {
		t.Errorf("the third is recorded as begun before the others were answered: %+v", r)
	}
	if r.Method != http.MethodPatch || r.URI != "/apis/useless.container.training/v1alpha1/namespaces/ns/switches/s?fieldManager=us" ||
		r.ContentType != string(types.MergePatchType) || r.Accept == "" || string(r.Body) != body {
		t.Errorf("recorded as sent: %+v", r)
	}
	if want := (Identity{UID: "some-uid", ResourceVersion: "17"}); r.Answer != want || r.Object != "web-00001" {
		t.Errorf("recorded as answered with %+v for %q", r.Answer, r.Object)
	}
}
