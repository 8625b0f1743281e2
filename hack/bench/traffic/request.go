// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic records the requests that a client sends to an API server, and counts them by the ImmortalContainer that
// each is about.
package traffic

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// podSuffix is what the name of a Pod has more than that of its ImmortalContainer.
const podSuffix = "-immortalpod"

// Request is one that was answered.
type Request struct {
	// Verb of the API: get, list, create, update, patch, delete.
	Verb string `json:"verb"`
	// Resource with its subresource: immortalcontainers/status.
	Resource string `json:"resource"`
	// Object is the name of the ImmortalContainer that it is about; "" for none.
	Object string `json:"object,omitempty"`
	// Code of the answer.
	Code int `json:"code"`
	// Body that was sent: JSON, or Kubernetes's protobuf.
	Body []byte `json:"body,omitempty"`
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

// objectOf tells which ImmortalContainer a request is about, "" if it is about none or many.
func objectOf(info *request.RequestInfo, body []byte) (string, error) {
	switch {
	case info.Resource == "immortalcontainers":
		return info.Name, nil
	case info.Resource == "pods" && info.Name != "":
		return strings.TrimSuffix(info.Name, podSuffix), nil
	case info.Resource == "events" && info.Name != "":
		// The recorder names an event after its object and the time.
		return info.Name[:max(0, strings.LastIndexByte(info.Name, '.'))], nil
	case info.Verb != "create":
		return "", nil
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return "", fmt.Errorf("reading what was sent to create one of %s: %w", info.Resource, err)
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		return strings.TrimSuffix(obj.Name, podSuffix), nil
	case *corev1.Event:
		return obj.InvolvedObject.Name, nil
	}
	return "", nil
}
