// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/objectcache"
)

// stallLimit is after which time without a success a list or watch is stalled.
const stallLimit = 15 * time.Second

// maxStallsNamed is how many stalled lists and watches a health check names.
const maxStallsNamed = 3

// errNoAnswer is why a list or watch is stalled whose request is not answered.
var errNoAnswer = errors.New("the API server does not answer")

// stalls knows which lists and watches of a process are stalled: none has succeeded for stallLimit, so that changes are not seen. A user of the object
// cache gets to know of his own.
type stalls struct {
	mu   sync.Mutex
	open map[collection]*attempt
	// listed are the resources that have been listed or watched.
	listed sets.Set[string]
}

// collection is what is listed and watched, by one client.
type collection struct {
	client                             http.RoundTripper
	path, labelSelector, fieldSelector string
	// source is that of an object cache, which may have several of a path: each is reported to.
	source any
}

// attempt is what has been tried, since the last success, to list or watch a collection.
type attempt struct {
	of       *stalls
	at       collection
	resource string
	since    time.Time
	// err is the last error, nil while there is no answer.
	err error
	// notServed reports whether it is that a resource of ours is not served.
	notServed bool
	stalled   bool
	timer     *time.Timer
	// ctx is the context of the last request. When it ends, no user waits for the collection any more, and the attempt ends, unless unbind was called.
	ctx    context.Context
	unbind func() bool
}

func newStalls() *stalls { return &stalls{open: map[collection]*attempt{}, listed: sets.New[string]()} }

// begin records a request. The result is nil for one that lists and watches nothing.
func (s *stalls) begin(client http.RoundTripper, req *http.Request) *attempt {
	resource := resourceOf(req.URL.Path)
	if resource == "" {
		return nil
	}
	query := req.URL.Query()
	at := collection{client, req.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector"), objectcache.SourceOf(req.Context())}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed.Insert(resource)
	a := s.open[at]
	if a == nil {
		a = &attempt{of: s, at: at, resource: resource, since: time.Now()}
		a.timer = time.AfterFunc(stallLimit, a.expire)
		s.open[at] = a
		countStall(resource, 0) // shown before there is any
	} else {
		a.unbind()
	}
	ctx := req.Context()
	a.ctx = ctx
	a.unbind = context.AfterFunc(ctx, func() { a.abandon(ctx) })
	return a
}

// failed records an error.
func (a *attempt) failed(err error) { a.fail(err, false) }

// fail records an error, and whether it is that a resource of ours is not served.
func (a *attempt) fail(err error, notServed bool) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	first := a.err == nil
	a.err, a.notServed = err, notServed
	if a.stalled && first {
		a.report()
	}
}

// succeeded records a success.
func (a *attempt) succeeded() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.end() {
		klog.FromContext(a.ctx).Info("A list or watch succeeds again", "resource", a.resource, "after", time.Since(a.since).Round(time.Millisecond))
	}
}

// abandon ends the attempt if its last request had the context.
func (a *attempt) abandon(ctx context.Context) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.ctx == ctx {
		a.end()
	}
}

// end ends the attempt, and reports whether it was stalled. The lock of stalls is held.
func (a *attempt) end() (wasStalled bool) {
	if a.of.open[a.at] != a {
		return false
	}
	delete(a.of.open, a.at)
	a.timer.Stop()
	a.unbind()
	if a.stalled {
		countStall(a.resource, -1)
		objectcache.ReportStalled(a.ctx, nil)
	}
	return a.stalled
}

// expire is called after stallLimit.
func (a *attempt) expire() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.of.open[a.at] != a {
		return
	}
	a.stalled = true
	countStall(a.resource, 1)
	klog.FromContext(a.ctx).Error(nil, "No list or watch succeeds: changes are not seen", "resource", a.resource, "err", a.reason())
	a.report()
}

// report informs the user of an object cache. The lock of stalls is held.
func (a *attempt) report() { objectcache.ReportStalled(a.ctx, a.reason()) }

func (a *attempt) reason() error {
	if a.err == nil {
		return errNoAnswer
	}
	return a.err
}

// check names what is stalled.
func (s *stalls) check(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, a := range s.open {
		if a.stalled {
			texts = append(texts, fmt.Sprintf("no list or watch of %s has succeeded since %s: %v", a.resource, a.since.UTC().Format(time.RFC3339), a.reason()))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if more := len(texts) - maxStallsNamed; more > 0 {
		texts = append(texts[:maxStallsNamed], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(texts, "; "))
}

// lacks reports whether the last answer to a list or watch of a resource of ours was that it is not served.
func (s *stalls) lacks(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.open {
		if a.notServed && a.resource == nameOf(resource) {
			return true
		}
	}
	return false
}

// lists reports whether the resource has been listed or watched.
func (s *stalls) lists(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed.Has(nameOf(resource))
}

// nameOf returns what resourceOf returns for the path of a resource of ours.
func nameOf(resource schema.GroupVersionResource) string {
	return fmt.Sprintf("%s.%s.%s", resource.Resource, resource.Version, resource.Group)
}

// resourceOf returns the resource whose objects a path is that of, as in widgets.v1.example.com, "" for any other path.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	version := 2 // its place in /apis/GROUP/VERSION/...
	if parts[0] == "api" {
		version = 1
	} else if parts[0] != "apis" {
		return ""
	}
	rest := parts[min(version+1, len(parts)):]
	if len(rest) == 3 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	if len(rest) != 1 {
		return ""
	}
	return strings.Join(append([]string{rest[0], parts[version]}, parts[1:version]...), ".")
}
