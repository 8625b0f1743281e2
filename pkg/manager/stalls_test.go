// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
)

// stallServer is an API server that gives one answer until that is changed.
type stallServer struct {
	answer atomic.Pointer[func() (*http.Response, error)]
}

// stallServerWith returns a server that gives the answer, nil for none at all.
func stallServerWith(answer func() (*http.Response, error)) *stallServer {
	s := &stallServer{}
	s.set(answer)
	return s
}

func (s *stallServer) set(answer func() (*http.Response, error)) { s.answer.Store(&answer) }

func (s *stallServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if answer := *s.answer.Load(); answer != nil {
		return answer()
	}
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// wantCheck fails the test unless the health check names what is wanted, "" for nothing.
func (s *stalls) wantCheck(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	err := s.check(nil)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("the check answers %v, want %q", err, want)
	}
}

const conversionFailed = `{"kind":"Status","apiVersion":"v1","message":"conversion webhook failed","code":500}`

// TestStalledListIsNamed: a list that fails each time is retried within one round trip, so that its informer learns of nothing.
func TestStalledListIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := stallServerWith(func() (*http.Response, error) { return answer(500, strings.NewReader(conversionFailed))() })
		client := newSteady(server)
		go func() {
			if resp, err := client.RoundTrip(request(t, t.Context(), http.MethodGet, "/apis/example.com/v1/namespaces/a/widgets?labelSelector=b")); err == nil {
				_, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
		}()
		time.Sleep(stallLimit - time.Second)
		client.stalls.wantCheck(t, "")
		time.Sleep(2 * time.Second)
		client.stalls.wantCheck(t, "no list or watch of widgets.v1.example.com has succeeded since 2000-01-01T00:00:00Z: conversion webhook failed")
		server.set(answer(200, strings.NewReader("list")))
		time.Sleep(2 * steadyPause)
		client.stalls.wantCheck(t, "")
	})
}

// TestUnansweredWatchIsNamed: no error ever comes. What no user waits for any more is not stalled.
func TestUnansweredWatchIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newSteady(stallServerWith(nil))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = client.RoundTrip(request(t, ctx, http.MethodGet, "/api/v1/pods?watch=true")) }()
		time.Sleep(stallLimit + time.Second)
		client.stalls.wantCheck(t, "pods.v1 has succeeded since 2000-01-01T00:00:00Z: the API server does not answer")
		cancel()
		client.stalls.wantCheck(t, "")
	})
}

// TestRefusedWatchIsNamed: an informer of a kind of ours that is not allowed to watch retries for ever, and its controller waits.
func TestRefusedWatchIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			lenient bool
			code    int
			want    string
		}{
			"refused":                {code: 403, want: "Forbidden"},
			"refused, declared":      {lenient: true, code: 403},
			"not served, declared":   {lenient: true, code: 404},
			"unauthorized, declared": {lenient: true, code: 401, want: "Unauthorized"},
			"a version that is gone": {code: 410, want: "Gone"},
		} {
			client := newSteady(stallServerWith(func() (*http.Response, error) { return answer(test.code, strings.NewReader("text"))() }))
			client.lenient = test.lenient
			ctx, cancel := context.WithCancel(t.Context())
			for range 5 {
				resp, err := client.RoundTrip(request(t, ctx, http.MethodGet, "/api/v1/pods?watch=true"))
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "text" {
					t.Errorf("%s: the informer reads %q, %v", name, body, err)
				}
				time.Sleep(stallLimit / 4)
			}
			client.stalls.wantCheck(t, test.want)
			cancel()
			client.stalls.wantCheck(t, "")
		}
	})
}

// TestUnservedResourceIsNamed: the CustomResourceDefinition of a kind of ours is deleted, and installed again. Its informer learns of nothing.
func TestUnservedResourceIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		server := stallServerWith(func() (*http.Response, error) { return answer(404, strings.NewReader("404 page not found"))() })
		client := newSteady(server)
		var code atomic.Int32
		go func() {
			if resp, err := client.RoundTrip(request(t, t.Context(), http.MethodGet, "/apis/example.com/v1/widgets?watch=true")); err == nil {
				code.Store(int32(resp.StatusCode))
				_ = resp.Body.Close()
			}
		}()
		synctest.Wait()
		if !client.stalls.lists(widgets) || client.stalls.lists(widgets.GroupResource().WithVersion("v2")) {
			t.Error("the resource that is watched is not the one that counts as listed")
		}
		if !client.stalls.lacks(widgets) || client.stalls.lacks(widgets.GroupResource().WithVersion("v2")) {
			t.Error("the resource that is not served is not the one that is named")
		}
		server.set(noAnswer)
		time.Sleep(2 * steadyPause)
		if client.stalls.lacks(widgets) {
			t.Error("an API server that does not answer counts as one that does not serve the resource")
		}
		server.set(answer(404, strings.NewReader("")))
		time.Sleep(stallLimit)
		client.stalls.wantCheck(t, "widgets.v1.example.com")
		if !client.stalls.lacks(widgets) {
			t.Error("the resource is not named any more")
		}
		server.set(answer(200, strings.NewReader("")))
		time.Sleep(2 * steadyPause)
		client.stalls.wantCheck(t, "")
		if client.stalls.lacks(widgets) || code.Load() != http.StatusOK {
			t.Errorf("when it is served again the informer got %d", code.Load())
		}
	})
}

// brokenBody is the body of a list that breaks.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestBrokenListIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := stallServerWith(answer(200, brokenBody{}))
		client := newSteady(server)
		list := func() {
			resp, err := client.RoundTrip(request(t, t.Context(), http.MethodGet, "/api/v1/pods"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		for range 5 {
			list()
			time.Sleep(stallLimit / 4)
		}
		client.stalls.wantCheck(t, "pods.v1 has succeeded since 2000-01-01T00:00:00Z: connection reset")
		server.set(answer(200, strings.NewReader("list")))
		list()
		client.stalls.wantCheck(t, "")
	})
}

// TestManyStalls: an outage of the API server stalls everything.
func TestManyStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newSteady(stallServerWith(nil))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			go func() { _, _ = client.RoundTrip(request(t, t.Context(), http.MethodGet, "/apis/example.com/v1/"+name)) }()
		}
		time.Sleep(stallLimit + time.Second)
		client.stalls.wantCheck(t, "; and 2 more")
	})
}

func TestResourceOfPath(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods":                           "pods.v1",
		"/api/v1/namespaces":                     "namespaces.v1",
		"/api/v1/namespaces/a/pods":              "pods.v1",
		"/apis/apps/v1/deployments":              "deployments.v1.apps",
		"/apis/apps/v1/namespaces/a/deployments": "deployments.v1.apps",
		"/api/v1/namespaces/a":                   "",
		"/api/v1/namespaces/a/pods/b":            "",
		"/api/v1/namespaces/a/pods/b/log":        "",
		"/apis/apps/v1":                          "",
		"/apis/apps":                             "",
		"/apis":                                  "",
		"/api/v1":                                "",
		"/api":                                   "",
		"/version":                               "",
		"/":                                      "",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestEachSourceIsReportedTo: two users of object caches watch the same, each for itself.
func TestEachSourceIsReportedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := func() (*http.Response, error) { return answer(500, strings.NewReader(conversionFailed))() }
		server := stallServerWith(failing)
		ctx, stop := context.WithCancel(t.Context())
		config := &rest.Config{Host: "http://test", Transport: newSteady(server)}
		var caches []*objectcache.Cache
		var handles []*objectcache.Handle
		for range 2 {
			objects, err := objectcache.New(ctx, config, objectcache.Options{})
			if err != nil {
				t.Fatal(err)
			}
			handle, err := objects.Acquire(objectcache.Request{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}})
			if err != nil {
				t.Fatal(err)
			}
			caches, handles = append(caches, objects), append(handles, handle)
		}
		wantStalled := func(want bool) {
			t.Helper()
			synctest.Wait()
			for i, handle := range handles {
				if _, stalled := errors.AsType[*objectcache.StalledError](handle.Problem()); stalled != want {
					t.Errorf("the problem of user %d is %v, want it stalled: %t", i, handle.Problem(), want)
				}
			}
		}
		time.Sleep(stallLimit + time.Second)
		wantStalled(true)
		server.set(func() (*http.Response, error) { return answer(200, strings.NewReader(""))() })
		time.Sleep(2 * steadyPause)
		wantStalled(false)
		stop()
		for _, objects := range caches {
			objects.Wait()
		}
	})
}
