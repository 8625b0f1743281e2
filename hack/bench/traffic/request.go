// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic records the requests of a client to an API server, and attributes each to the object that it was sent for.
package traffic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is one that was answered.
type Request struct {
	// Verb of the API (get, list, create, update, patch, delete), and Resource with its subresource: immortalcontainers/status.
	Verb, Resource string
	// Object is the name of the object that it was sent for, "" for none.
	Object string
	// Code of the answer.
	Code int
	// Method, URI (path and query), ContentType, Accept and Body (JSON or protobuf) are what was sent.
	Method, URI, ContentType, Accept string
	Body                             []byte
	// Began and Answered are places in the order of all beginnings and answers.
	Began, Answered int64
	// Answer identifies what was written.
	Answer Identity
}

// Identity is what the API server sets when it writes an object.
type Identity struct {
	UID             types.UID
	ResourceVersion string
}

// Recording is what is needed to send the same requests again.
type Recording struct {
	// Resource of the objects, and the Namespace that they were in.
	Resource  schema.GroupVersionResource
	Namespace string
	// Objects that existed before, by name.
	Objects map[string]Identity
	// Phases follow one another.
	Phases [][]Request
}

// Kind returns what the request is counted as: "create pods".
func (r Request) Kind() string { return r.Verb + " " + r.Resource }

// ObjectName returns the name of the object with a number. What is created for an object has that name in its own, or in that of its controller.
func ObjectName(number int) string { return fmt.Sprintf("web-%05d", number) }

var objectName = regexp.MustCompile(`web-[0-9]{5}`)

// ObjectIn returns the name of the object that a name contains, "" if there is none.
func ObjectIn(name string) string { return objectName.FindString(name) }

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// counts reports whether a request is one that the goals limit: reads and writes of objects, but not watches and renewals of Leases.
func counts(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.Verb != "watch" && info.Resource != "leases"
}

// objectOf returns the name of the object that a request was sent for, "" for none or many.
func objectOf(info *request.RequestInfo, sent, answered metav1.Object) string {
	names := []string{info.Name, sent.GetName()}
	for _, object := range []metav1.Object{sent, answered} {
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
			names = append(names, owner.Name)
		}
	}
	for _, name := range names {
		if object := ObjectIn(name); object != "" {
			return object
		}
	}
	return ""
}

// metadataOf returns the metadata of a body, which are empty where it is no object.
func metadataOf(body []byte) (metav1.Object, error) {
	metadata := &metav1.PartialObjectMetadata{}
	switch {
	case len(body) == 0:
		return metadata, nil
	case !bytes.HasPrefix(body, []byte("k8s\x00")): // not protobuf
		return metadata, json.Unmarshal(body, metadata)
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if object, err := meta.Accessor(decoded); err == nil {
		return object, nil
	}
	return metadata, nil // a list, or a Status
}

// IdentityOf returns the identity of the object in an answer.
func IdentityOf(answer []byte) (Identity, error) {
	metadata, err := metadataOf(answer)
	if err != nil {
		return Identity{}, err
	}
	return Identity{UID: metadata.GetUID(), ResourceVersion: metadata.GetResourceVersion()}, nil
}

// complete fills in the object and the answer. It returns what the request is about, as resource and name; "" where there is no name.
func (r *Request) complete(info *request.RequestInfo, answer []byte) (target string, err error) {
	sent, err := metadataOf(r.Body)
	if err != nil {
		return "", fmt.Errorf("reading the body of %s: %w", r.Kind(), err)
	}
	answered, err := metadataOf(answer)
	if err != nil {
		return "", fmt.Errorf("reading the answer to %s: %w", r.Kind(), err)
	}
	r.Object = objectOf(info, sent, answered)
	if r.Code < http.StatusMultipleChoices {
		r.Answer = Identity{UID: answered.GetUID(), ResourceVersion: answered.GetResourceVersion()}
	}
	if name := cmp.Or(info.Name, sent.GetName()); name != "" {
		target = info.Resource + "/" + name
	}
	return target, nil
}
