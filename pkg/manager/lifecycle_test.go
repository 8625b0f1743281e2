// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v2", Resource: "widgets"}

func served(group, version string, resources ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: group, Version: version}.String()}
	for _, resource := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource})
	}
	return list
}

func TestMissingCRDBlocksOneController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		needy, free := &toy{name: "needy", requires: []schema.GroupVersionResource{widgets}}, &toy{name: "free", watches: true}
		p := newProcess(t, cluster, needy.descriptor(), free.descriptor()).start()
		settled(500 * time.Millisecond)
		if !free.working.Load() || needy.working.Load() {
			t.Fatalf("working: free %t, needy %t", free.working.Load(), needy.working.Load())
		}
		const complaint = "Waiting for the CustomResourceDefinition widgets.example.org: the API server does not serve widgets in version v2: " +
			"install it (make install, or kubectl apply --server-side -f manifests/00-crds); retrying"
		for minute, want := range []int{1, 3, 5} {
			if got := linesWith(p.logs(), complaint); got != want {
				t.Errorf("after %d minutes the log says %d times what is missing, want %d:\n%s", minute, got, want, p.logs())
			}
			settled(time.Minute)
		}
		cluster.serve(served("example.org", "v2", "widgets"))
		settled(1100 * time.Millisecond)
		if !needy.working.Load() {
			t.Error("it does not work a second after its CRD was installed")
		}
		if got := linesWith(p.logs(), "The API server serves the missing APIs now"); got != 1 {
			t.Errorf("the log says %d times that the API is there", got)
		}
		mustEnd(t, p)
	})
}

func TestMissingAPIs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		served []*metav1.APIResourceList
		fails  error // of every discovery request
		want   string
	}{
		{name: "served", served: []*metav1.APIResourceList{served("example.org", "v2", "widgets")}},
		{name: "group not served", want: "Waiting for the CustomResourceDefinition widgets.example.org: the API server does not serve widgets in version v2: install it"},
		{name: "other resource of the group", served: []*metav1.APIResourceList{served("example.org", "v2", "gadgets")},
			want: "Waiting for the CustomResourceDefinition widgets.example.org"},
		{name: "other versions", served: []*metav1.APIResourceList{served("example.org", "v1", "widgets"), served("example.org", "v1beta1", "widgets")},
			want: "Waiting for version v2 of widgets.example.org: the API server serves only v1, v1beta1 of this group"},
		{name: "forbidden", fails: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), want: "bind the ClusterRole system:discovery"},
		{name: "unauthorized", fails: apierrors.NewUnauthorized("no"), want: "the API server does not accept ours; renew the kubeconfig"},
		{name: "unreachable", fails: errCut, want: "it cannot be reached; check that it runs"},
		{name: "broken", fails: apierrors.NewInternalError(errors.New("no")), want: "it cannot list the APIs that it serves"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cluster := newFakeCluster()
			cluster.Resources = tc.served
			if tc.fails != nil {
				cluster.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.fails })
			}
			got, err := missingAPI(t.Context(), cluster.Discovery(), []schema.GroupVersionResource{widgets})
			if got == "" && tc.want != "" || !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if !errors.Is(err, tc.fails) {
				t.Errorf("error %v, want %v", err, tc.fails)
			}
		})
	}
}

func TestAControllerIsReadyWhenItsCachesAreFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		var fails atomic.Bool
		fails.Store(true)
		cluster.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return fails.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
		})
		var unreachable atomic.Bool
		cluster.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			return unreachable.Load(), nil, errCut
		})
		p := newProcess(t, cluster)
		shared, err := newShared(p.ctx, p.config, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		worker := &toy{name: "toy", requires: []schema.GroupVersionResource{widgets}, watches: true}
		group := newGroup([]Descriptor{worker.descriptor()}, shared)
		never := make(chan struct{}) // a standby is ready
		check := func() string {
			if err := group.checks()[0].Check(nil); err != nil {
				return err.Error()
			}
			return ""
		}
		if got := check(); got != "not started yet" {
			t.Errorf("before the start: %q", got)
		}
		group.start(p.ctx, p.ctx, never, 1, func(err error) { t.Error(err) })
		settled(500 * time.Millisecond)
		if got := check(); !strings.Contains(got, "Waiting for the CustomResourceDefinition widgets.example.org") {
			t.Errorf("without its CRD: %q", got)
		}
		cluster.serve(served("example.org", "v2", "widgets"))
		settled(time.Second)
		if got := check(); !strings.Contains(got, "waiting for caches: ") || !strings.Contains(got, "Pod") {
			t.Errorf("while its informer cannot list: %q", got)
		}
		fails.Store(false)
		settled(time.Minute)
		if got := check(); got != "" {
			t.Errorf("with warm caches: %q", got)
		}
		p.lacking.Store(true)
		if got := check(); !strings.Contains(got, "Waiting for the CustomResourceDefinition widgets.example.org") {
			t.Errorf("after its CRD is deleted: %q", got)
		}
		p.lacking.Store(false)
		if got := check(); got != "" {
			t.Errorf("when its CRD is there again: %q", got)
		}
		cluster.serveNothing()
		settled(recheckInterval)
		if got := check(); got != "" {
			t.Errorf("discovery was asked for a resource that an informer lists: %q", got)
		}
		const complaint = "Waiting for the CustomResourceDefinition widgets.example.org"
		before := linesWith(p.logs(), complaint)
		p.unlisted.Store(true)
		settled(recheckInterval)
		if got := linesWith(p.logs(), complaint) - before; got != 1 {
			t.Errorf("the deletion was logged %d times, want 1", got)
		}
		if got := check(); !strings.Contains(got, complaint) {
			t.Errorf("after the CRD of a resource that no informer lists is deleted: %q", got)
		}
		unreachable.Store(true)
		settled(recheckInterval)
		if got := check(); !strings.Contains(got, complaint) {
			t.Errorf("while the API server does not answer: %q", got)
		}
		unreachable.Store(false)
		cluster.serve(served("example.org", "v2", "widgets"))
		settled(recheckInterval)
		if got := check(); got != "" {
			t.Errorf("when the CRD of a resource that no informer lists is there again: %q", got)
		}
		p.stop(nil)
		if hanging := group.join(p.ctx, time.Second); len(hanging) > 0 {
			t.Errorf("%v hang", hanging)
		}
		shared.joinInformers(p.ctx)
	})
}

func TestASyncThatDoesNotEndFailsLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, newFakeCluster())
		shared, err := newShared(p.ctx, p.config, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		worker := &toy{name: "toy"}
		group := newGroup([]Descriptor{worker.descriptor()}, shared)
		live := healthHandler(group.syncChecks(), nil)
		ask := func(path string) (int, string) {
			answer := httptest.NewRecorder()
			live.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			return answer.Code, answer.Body.String()
		}
		if code, body := ask("/livez"); code != http.StatusOK {
			t.Errorf("before the controller is built: %d %s", code, body)
		}
		never := make(chan struct{})
		group.start(p.ctx, p.ctx, never, 1, func(err error) { t.Error(err) })
		settled(time.Second)
		if code, body := ask("/livez"); code != http.StatusOK {
			t.Errorf("while all is well: %d %s", code, body)
		}
		worker.overdue.Store(true)
		for _, path := range []string{"/livez", "/healthz", "/readyz"} {
			if code, body := ask(path); code != http.StatusInternalServerError || !strings.Contains(body, "[-]sync-toy failed") {
				t.Errorf("%s with a sync that does not end: %d %s", path, code, body)
			}
		}
		p.stop(nil)
		if hanging := group.join(p.ctx, time.Second); len(hanging) > 0 {
			t.Errorf("%v hang", hanging)
		}
		shared.joinInformers(p.ctx)
	})
}
