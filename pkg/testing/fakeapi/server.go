// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// firstVersion is the resourceVersion of the empty server.
const firstVersion = 1000

// Server is an API server in memory.
type Server struct {
	t testing.TB

	mu        sync.Mutex
	resources map[schema.GroupVersionResource]*Resource
	objects   map[objectKey]*unstructured.Unstructured
	version   int64
	uids      int
	history   []Change
	// changed is closed and replaced when a watch may have something to send.
	changed chan struct{}
	// frozen is how much of the history lists and watches of a resource show; those that are not in it show all.
	frozen map[schema.GroupVersionResource]int

	script
	log
}

type objectKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// Change is a version of an object. Versions are never changed.
type Change struct {
	Resource schema.GroupVersionResource
	// Version is the resourceVersion.
	Version int64
	// Before is nil if the object was created, Object its last state if it was Deleted.
	Before, Object *unstructured.Unstructured
	Deleted        bool
	At             time.Time
}

// New returns a server of these resources, and of Events.
func New(t testing.TB, resources ...Resource) *Server {
	s := &Server{t: t, resources: map[schema.GroupVersionResource]*Resource{}, objects: map[objectKey]*unstructured.Unstructured{},
		version: firstVersion, changed: make(chan struct{}), frozen: map[schema.GroupVersionResource]int{}}
	s.script.fail, s.script.lose = map[string][]error{}, map[string]error{}
	for _, resource := range append([]Resource{Events}, resources...) {
		s.Register(resource)
	}
	return s
}

// Register a resource, in the place of the one of its name. Its objects stay.
func (s *Server) Register(resource Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[resource.GroupVersionResource] = &resource
}

// Config leads to the server.
func (s *Server) Config() *rest.Config { return s.ConfigVia(s.Do) }

// ConfigVia leads to the server through a function that gets each request, and answers it with Do when it likes.
func (s *Server) ConfigVia(do func(*Request) (*http.Response, error)) *rest.Config {
	return &rest.Config{
		Host: "http://fakeapi", QPS: -1, Transport: roundTripper{s, do},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

type roundTripper struct {
	s  *Server
	do func(*Request) (*http.Response, error)
}

func (rt roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r, err := parse(req)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return rt.s.discover(req)
	}
	return rt.do(r)
}

// Do does a request and returns the answer. The functions of the script are called without the server's lock, one at a time.
func (s *Server) Do(r *Request) (*http.Response, error) {
	if err := s.refuse(r); err != nil {
		return r.fail(err)
	}
	answer, err := s.answer(r)
	if lost := s.lost(r); lost != nil {
		return r.fail(lost)
	}
	return answer, err
}

// answer does a request that is not refused.
func (s *Server) answer(r *Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := s.resources[r.Resource]
	if resource == nil || r.Subresource != "" && (r.Subresource != "status" || !resource.Status) {
		r.Err = errNotServed
		s.record(r)
		return notServed(r.http), nil
	}
	switch r.Verb {
	case "list":
		return s.list(r, resource)
	case "watch":
		return s.watch(r, resource)
	}
	object, err := s.serve(r, resource)
	r.Err = err
	s.record(r)
	if err != nil {
		return r.fail(err)
	}
	code := http.StatusOK
	if r.Verb == "create" {
		code = http.StatusCreated
	}
	return r.respond(code, object)
}

var (
	errVerb      = errors.New("fakeapi does not serve this verb")
	errNotServed = errors.New("404 page not found")
)

func (s *Server) serve(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	r.Before = s.objects[objectKey{r.Resource, r.Namespace, r.Name}]
	switch r.Verb {
	case "get":
		if r.Before == nil {
			return nil, notFound(r)
		}
		return r.Before, nil
	case "create":
		return s.create(r, resource)
	case "update":
		return s.update(r, resource)
	case "patch":
		return s.patch(r, resource)
	case "delete":
		return s.delete(r, resource)
	}
	return nil, errVerb
}

// discover answers what is asked for outside of resources: which there are in a group version.
func (s *Server) discover(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(req.URL.Path, "/"), "apis/"), "api/")
	version, err := schema.ParseGroupVersion(text)
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: text}
	for _, resource := range s.resources {
		if err == nil && resource.GroupVersion() == version {
			list.APIResources = append(list.APIResources, resource.discovery()...)
		}
	}
	if len(list.APIResources) == 0 {
		return notServed(req), nil
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return (&Request{http: req}).respond(http.StatusOK, list)
}

func notServed(req *http.Request) *http.Response {
	return response(req, http.StatusNotFound, "text/plain", io.NopCloser(strings.NewReader(errNotServed.Error())))
}

// store makes a new version of an object, or removes it, and returns what is stored.
func (s *Server) store(resource *Resource, before, object *unstructured.Unstructured, deleted bool) *unstructured.Unstructured {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	key := objectKey{resource.GroupVersionResource, object.GetNamespace(), object.GetName()}
	if s.objects[key] = object; deleted {
		delete(s.objects, key)
	}
	s.history = append(s.history, Change{resource.GroupVersionResource, s.version, before, object, deleted, time.Now()})
	s.wake()
	return object
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// History returns all changes since the server was made.
func (s *Server) History() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.history)
}

// Version is the resourceVersion of the newest change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}
