// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/objectcache"
)

// silentTransport is an API server that does not answer.
type silentTransport struct{}

func (silentTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, context.Cause(request.Context())
}

func TestStandbyReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	objects, err := objectcache.New(ctx, &rest.Config{Transport: silentTransport{}}, objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Wait()
	defer cancel()
	acquired := 0
	c := &Controller{Config: Config{TargetSelector: labels.Everything()}}
	s := &standby{
		requests: c.standbyRequests,
		acquire: func(request objectcache.Request) (*objectcache.Handle, error) {
			acquired++
			return objects.Acquire(request)
		},
		held: map[types.UID]heldWatches{}, ready: make(chan struct{}),
	}
	cc := controllerWith()
	cc.UID = "cc"
	s.observe(declared(cc))
	s.observe(declared(cc))
	if acquired != 2 {
		t.Errorf("%d watches were acquired, want one of the parents and one of the children", acquired)
	}
	if cache.IsDone(s) {
		t.Error("it is ready although nothing has been watched yet")
	}
	changed := cc.DeepCopy()
	changed.Generation++
	s.observe(declared(changed))
	if acquired != 4 {
		t.Errorf("%d watches were acquired after the spec has changed, want 4", acquired)
	}
	s.release(cc.UID)
	if !cache.IsDone(s) {
		t.Error("it is not ready although nothing is needed any more")
	}
	s.end()
	s.observe(declared(cc))
	if acquired != 4 {
		t.Error("a process that serves acquires watches for standing by")
	}
}

// TestStandbyFollowsLabels: labels decide which engine serves a declaration, and are no part of its generation.
func TestStandbyFollowsLabels(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	objects, err := objectcache.New(ctx, &rest.Config{Transport: silentTransport{}}, objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Wait()
	defer cancel()
	c := &Controller{Config: Config{TargetSelector: labels.SelectorFromSet(labels.Set{"engine": "this"})}}
	s := &standby{requests: c.standbyRequests, acquire: objects.Acquire, held: map[types.UID]heldWatches{}, ready: make(chan struct{})}
	cc := controllerWith()
	cc.UID = "cc"
	for _, test := range []struct {
		engine string
		want   int
	}{{"other", 0}, {"this", 2}, {"this", 2}, {"other", 0}} {
		cc = cc.DeepCopy()
		cc.Labels = map[string]string{"engine": test.engine}
		s.observe(declared(cc))
		if got := len(s.held[cc.UID].handles); got != test.want {
			t.Errorf("served by %s: %d watches are held, want %d", test.engine, got, test.want)
		}
	}
}

func TestStandbyRequests(t *testing.T) {
	c := &Controller{Config: Config{Namespace: "ns", TargetSelector: labels.SelectorFromSet(labels.Set{"engine": "this"})}}
	cc := controllerWith(withLabelSelector)
	if requests := c.standbyRequests(declared(cc)); len(requests) > 0 {
		t.Errorf("what another engine serves is watched: %v", requests)
	}
	cc.Labels = map[string]string{"engine": "this"}
	requests := c.standbyRequests(declared(cc))
	if len(requests) != 2 || requests[0].Resource != configMaps || requests[1].Resource != things {
		t.Fatalf("watched are %v, want the children and the parents", requests)
	}
	if requests[1].Namespace != "ns" || requests[1].Selector == nil || requests[1].Selector.String() != "on=yes" {
		t.Errorf("parents are watched in namespace %q by selector %v", requests[1].Namespace, requests[1].Selector)
	}
	withFinalize(&cc.Spec)
	if selector := c.standbyRequests(declared(cc))[1].Selector; selector != nil {
		t.Errorf("with a finalize hook parents are watched by the selector %v: those that are not selected any more need it too", selector)
	}
}
