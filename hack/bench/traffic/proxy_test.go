// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// apiServer answers every request with what was sent to it, and watches and reads with NotFound.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		w.Header().Set("Content-Type", req.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, req.Body)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestTheProxyRecordsWhatCountsAndTellsWhichObjectItIsAbout(t *testing.T) {
	proxy, err := StartProxy(apiServer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	client := versioned.NewForConfigOrDie(&rest.Config{Host: proxy.URL})
	kubeClient := kubernetes.NewForConfigOrDie(&rest.Config{Host: proxy.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}})

	ctx := t.Context()
	container := &v1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-immortalpod"}}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web.17"}, InvolvedObject: corev1.ObjectReference{Name: "web"}}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-0000", OwnerReferences: []metav1.OwnerReference{{Name: "p", Controller: ptr.To(true)}}}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}}
	// What becomes of the answers is of no interest, only that the requests were sent.
	_, _ = client.ImmortalcontainersV1alpha1().ImmortalContainers("ns").UpdateStatus(ctx, container, metav1.UpdateOptions{})
	_, _ = kubeClient.CoreV1().Pods("ns").Create(ctx, pod, metav1.CreateOptions{})
	_, _ = kubeClient.CoreV1().ConfigMaps("ns").Create(ctx, child, metav1.CreateOptions{})
	_, _ = kubeClient.CoreV1().Events("ns").Create(ctx, event, metav1.CreateOptions{})
	_, _ = kubeClient.CoreV1().Events("ns").Patch(ctx, "web.17", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
	_, _ = kubeClient.CoreV1().Pods("ns").Get(ctx, "web-immortalpod", metav1.GetOptions{})
	_, _ = kubeClient.CoreV1().Pods("ns").List(ctx, metav1.ListOptions{})
	_, _ = kubeClient.CoreV1().Pods("ns").Watch(ctx, metav1.ListOptions{})
	_, _ = kubeClient.CoordinationV1().Leases("ns").Update(ctx, lease, metav1.UpdateOptions{})
	_, _ = kubeClient.Discovery().ServerVersion()

	want := []Request{
		{Verb: "update", Resource: "immortalcontainers/status", Object: "web", Code: 201},
		{Verb: "create", Resource: "pods", Object: "web", Code: 201},
		{Verb: "create", Resource: "configmaps", Object: "p", Code: 201},
		{Verb: "create", Resource: "events", Object: "web", Code: 201},
		{Verb: "patch", Resource: "events", Object: "web", Code: 201},
		{Verb: "get", Resource: "pods", Object: "web", Code: 404},
		{Verb: "list", Resource: "pods", Code: 404},
	}
	got, err := proxy.Take()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("it recorded %d requests, want %d: %v", len(got), len(want), Count(got))
	}
	for i := range want {
		sent := got[i].Body
		got[i].Body = nil
		if got[i].Kind() != want[i].Kind() || got[i].Object != want[i].Object || got[i].Code != want[i].Code {
			t.Errorf("request %d is %+v, want %+v", i, got[i], want[i])
		}
		if write := want[i].Verb != "get" && want[i].Verb != "list"; write != (len(sent) > 0) {
			t.Errorf("request %d (%s) was recorded with a body of %d bytes", i, got[i].Kind(), len(sent))
		}
	}
	if again, _ := proxy.Take(); len(again) != 0 {
		t.Errorf("taken once more, it still has %d requests", len(again))
	}
}

func TestTheFrozenRunOfAnActionSetAndItsEffectsAreAboutIt(t *testing.T) {
	proxy, err := StartProxy(apiServer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: proxy.URL}).CoreV1()
	ctx := t.Context()
	owner := []metav1.OwnerReference{{Name: "web-00001", Controller: ptr.To(true)}}
	run := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "actionset-run-uid", OwnerReferences: owner}}
	effect := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-00001-2"}}
	// What becomes of the answers is of no interest, only that the requests were sent.
	_, _ = client.ConfigMaps("ns").Get(ctx, "web-00001-subject", metav1.GetOptions{})
	_, _ = client.Secrets("ns").Create(ctx, run, metav1.CreateOptions{})
	_, _ = client.ConfigMaps("ns").Create(ctx, effect, metav1.CreateOptions{})
	_ = client.Secrets("ns").Delete(ctx, run.Name, metav1.DeleteOptions{})
	_ = client.Secrets("ns").Delete(ctx, "another", metav1.DeleteOptions{})
	got, err := proxy.Take()
	if err != nil || len(got) != 5 {
		t.Fatalf("it recorded %d requests, want 5: %v", len(got), err)
	}
	for i, want := range []string{"web-00001", "web-00001", "web-00001", "web-00001", ""} {
		if got[i].Object != want {
			t.Errorf("%s is about %q, want %q", got[i].Kind(), got[i].Object, want)
		}
	}
}
