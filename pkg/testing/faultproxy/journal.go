// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Request is what a client has asked for, in the API server's terms.
type Request struct {
	// Proxy is the name of the proxy that it came through, and so tells which process sent it.
	Proxy string
	// UserAgent tells which component of the process.
	UserAgent string
	// Verb is one of get, list, watch, create, update, patch, delete and deletecollection; for what is not about a resource
	// it is the method in lower case.
	Verb string
	// Group and Resource are "" for what is not about a resource.
	Group, Resource, Subresource string
	// Name of the object; "" in a create, where only the body has it.
	Namespace, Name string
	// Path and Query of the URL.
	Path  string
	Query url.Values
	// Received is when the proxy had its head.
	Received time.Time
}

// Entry is one request and its answer.
type Entry struct {
	Request
	// Code is the HTTP status of the answer. It is 0 while there is none, and for ever if the connection to either side
	// broke before: then it is unknown whether the request took effect.
	Code int
	// Answered is when the answer's head came, which for a write is just after it took effect.
	Answered time.Time
	// Faked tells that the answer is the proxy's: the API server has not seen the request.
	Faked bool
}

// IsWrite reports whether it asks for something to be changed. A dry run does not.
func (r Request) IsWrite() bool {
	if r.Query.Has("dryRun") {
		return false
	}
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return r.Resource != ""
	default:
		return false
	}
}

// TookEffect tells whether it is a write that the API server has done. It is false for one whose answer was lost.
func (e Entry) TookEffect() bool {
	return e.IsWrite() && !e.Faked && e.Code >= http.StatusOK && e.Code < http.StatusMultipleChoices
}

// String tells it in one line.
func (e Entry) String() string {
	what := e.Path
	if e.Resource != "" {
		what = e.Resource
		if e.Subresource != "" {
			what += "/" + e.Subresource
		}
		what += fmt.Sprintf(" %s/%s", e.Namespace, e.Name)
	}
	answer := "no answer"
	if e.Code != 0 {
		answer = fmt.Sprintf("%d after %s", e.Code, e.Answered.Sub(e.Received).Round(time.Millisecond))
	}
	if e.Faked {
		answer += " (faked)"
	}
	return fmt.Sprintf("%s %s: %s %s: %s (%s)", e.Received.Format("15:04:05.000"), e.Proxy, e.Verb, what, answer, e.UserAgent)
}

// Journal keeps requests. It may be shared by several proxies, whose requests are then in one order. The zero Journal is ready
// for use.
type Journal struct {
	mu      sync.Mutex
	entries []*Entry
}

// Entries returns all requests that have come, in the order of their coming. Some may have no answer yet.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := make([]Entry, 0, len(j.entries))
	for _, entry := range j.entries {
		entries = append(entries, *entry)
	}
	return entries
}

// Select returns the requests of which the condition is true.
func (j *Journal) Select(condition func(Entry) bool) []Entry {
	return slices.DeleteFunc(j.Entries(), func(e Entry) bool { return !condition(e) })
}

func (j *Journal) add(r Request) *Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := &Entry{Request: r}
	// Under the lock, so that times and order agree.
	entry.Received = time.Now()
	j.entries = append(j.entries, entry)
	return entry
}

func (j *Journal) answered(entry *Entry, code int, faked bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry.Code, entry.Answered, entry.Faked = code, time.Now(), faked
}

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

func parseRequest(proxy string, req *http.Request) (Request, error) {
	info, err := requestInfos.NewRequestInfo(req)
	if err != nil {
		return Request{}, fmt.Errorf("reading request %s %s: %w", req.Method, req.URL.Path, err)
	}
	r := Request{
		Proxy:     proxy,
		UserAgent: req.UserAgent(),
		Verb:      info.Verb,
		Path:      req.URL.Path,
		Query:     req.URL.Query(),
	}
	if info.IsResourceRequest {
		r.Group, r.Resource, r.Subresource = info.APIGroup, info.Resource, info.Subresource
		r.Namespace, r.Name = info.Namespace, info.Name
	}
	return r, nil
}
