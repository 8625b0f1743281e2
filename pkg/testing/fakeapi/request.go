// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Request is a request of a client.
type Request struct {
	// Verb is that of authorization: get, list, watch, create, update, patch or delete.
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	// Name of the object. A list or a watch has one if it selects it by metadata.name.
	Name        string
	Query       url.Values
	ContentType string
	Body        []byte

	// What became of the request, once it is done. Scripted is the error of Fail or FailIf in whose place nothing was done, Err the
	// server's own. Before and After are the object that was written; nil if there was or is none.
	Scripted, Err error
	Before, After *unstructured.Unstructured

	metadataOnly bool
	http         *http.Request
}

// String returns the verb, the resource and the subresource: "update machines/status".
func (r *Request) String() string {
	if r.Subresource != "" {
		return r.Verb + " " + r.Resource.Resource + "/" + r.Subresource
	}
	return r.Verb + " " + r.Resource.Resource
}

// Object returns the object that the client sends; empty if there is none. Patches are objects too, but for JSON patches.
func (r *Request) Object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	_ = utiljson.Unmarshal(r.Body, &object.Object)
	return object
}

// Decode the body of a request into a value of the type T.
func Decode[T any](r *Request) T {
	var value T
	if err := json.Unmarshal(r.Body, &value); err != nil {
		panic(fmt.Sprintf("fakeapi: %s: %v", r, err))
	}
	return value
}

// isWrite reports whether the request writes anything but an event.
func (r *Request) isWrite() bool {
	return r.Resource != Events.GroupVersionResource && (r.Verb == "create" || r.Verb == "update" || r.Verb == "patch" || r.Verb == "delete")
}

func (r *Request) dryRun() bool { return r.Query.Has("dryRun") }

// parse returns nil if the path is not one of a resource.
func parse(req *http.Request) (*Request, error) {
	r := &Request{Query: req.URL.Query(), ContentType: req.Header.Get("Content-Type"), http: req,
		metadataOnly: strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		r.Body = body
	}
	info, err := requestInfos.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return nil, err
	}
	r.Verb, r.Namespace, r.Name, r.Subresource = info.Verb, info.Namespace, info.Name, info.Subresource
	r.Resource = schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if info.Resource == Namespaces.Resource {
		r.Namespace = "" // a Namespace counts as within itself
	}
	return r, nil
}

var requestInfos = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// respond returns the answer with that body.
func (r *Request) respond(code int, body any) (*http.Response, error) {
	if object, ok := body.(*unstructured.Unstructured); ok && r.metadataOnly {
		body = metadataOf(object)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return response(r.http, code, "application/json", io.NopCloser(bytes.NewReader(encoded))), nil
}

// fail returns the answer for an error: those of the API come as a Status, others are those of the connection.
func (r *Request) fail(err error) (*http.Response, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, err
	}
	shown := status.Status()
	shown.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return r.respond(int(shown.Code), shown)
}

func response(req *http.Request, code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1, Request: req,
	}
}

// metadataOf returns the object as a PartialObjectMetadata.
func metadataOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"],
	}}
}
