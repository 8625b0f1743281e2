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

// Request is a request of a client, in the terms of the API server.
type Request struct {
	// Proxy is the name of the proxy that received the request. It identifies the process that sent it.
	Proxy string
	// UserAgent identifies the component of the process.
	UserAgent string
	// Verb is one of get, list, watch, create, update, patch, delete and deletecollection. For a request that is not about a resource it
	// is the method in lower case.
	Verb string
	// Group, Resource and Subresource are "" for a request that is not about a resource.
	Group, Resource, Subresource string
	// Namespace and Name of the object. Name is "" for a create, where only the body has it.
	Namespace, Name string
	// Path and Query of the URL.
	Path  string
	Query url.Values
	// Received is when the proxy had read the header.
	Received time.Time
}

// Entry is one request and its answer.
type Entry struct {
	Request
	// Code is the HTTP status of the answer. It is 0 until there is an answer, and stays 0 if the connection to either side broke before:
	// then it is unknown whether the request took effect.
	Code int
	// Answered is when the header of the answer arrived. For a write that is just after it took effect.
	Answered time.Time
	// Faked is true if the proxy has answered: the API server has not seen the request.
	Faked bool
}

// IsWrite reports whether the request changes something. A dry run does not.
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

// TookEffect reports whether the request is a write that the API server has answered with success. It is false if the answer was lost.
func (e Entry) TookEffect() bool {
	return e.IsWrite() && !e.Faked && e.Code >= http.StatusOK && e.Code < http.StatusMultipleChoices
}

// String returns one line with the sender, the request and the answer.
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

// Journal records requests in the order of arrival. Several proxies may share one. The zero Journal is ready for use.
type Journal struct {
	mu      sync.Mutex
	entries []*Entry
}

// Entries returns all requests in the order of arrival. Some may have no answer yet.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := make([]Entry, 0, len(j.entries))
	for _, entry := range j.entries {
		entries = append(entries, *entry)
	}
	return entries
}

// Select returns the entries for which the condition is true.
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
