// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic records the requests that a client sends to an API server, and counts them by the object, of one of our
// kinds, that each is about.
package traffic

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Request is one that was answered.
type Request struct {
	// Verb of the API: get, list, create, update, patch, delete.
	Verb string `json:"verb"`
	// Resource with its subresource: immortalcontainers/status.
	Resource string `json:"resource"`
	// Object is the name of the object of ours that it is about: the ImmortalContainer whose Pod it creates; "" for none.
	Object string `json:"object,omitempty"`
	// Code of the answer.
	Code int `json:"code"`

	// Method, URI, ContentType, Accept and Body are what was sent. The URI has path and query; the body is JSON, or
	// Kubernetes's protobuf.
	Method      string `json:"method"`
	URI         string `json:"uri"`
	ContentType string `json:"contentType,omitempty"`
	Accept      string `json:"accept,omitempty"`
	Body        []byte `json:"body,omitempty"`

	// Began and Answered are when it reached the proxy, and when its answer did: places in the order of all these.
	Began    int64 `json:"began"`
	Answered int64 `json:"answered"`
	// Answer tells what was written.
	Answer Identity `json:"answer"`

	target string // resource and name; "" where there is no name
}

// Identity is what the API server makes up when it writes an object.
type Identity struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// Recording is what is needed to send the same requests once more.
type Recording struct {
	// Namespace in which all was done.
	Namespace string `json:"namespace"`
	// Objects that existed before, by name.
	Objects map[string]Identity `json:"objects"`
	// Phases follow one another.
	Phases [][]Request `json:"phases"`
}

// Kind is what the request is counted as.
func (r Request) Kind() string { return r.Verb + " " + r.Resource }

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// counts tells whether a request is one of those that the specs limit: reads and writes of objects, but not watches,
// and not the renewals of the Lease.
func counts(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.Verb != "watch" && info.Resource != "leases"
}

// resource with its subresource.
func resource(info *request.RequestInfo) string {
	if info.Subresource != "" {
		return info.Resource + "/" + info.Subresource
	}
	return info.Resource
}
