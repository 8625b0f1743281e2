// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Point is one write of a controller: the k-th request of the verb to the object. Objects are numbered in the order in which they first
// appear, because some names are different in every run.
type Point struct {
	Verb     string // create, update, patch, delete, deletecollection
	Resource string // with its subresource: pods, immortalcontainers/status
	Object   int
	K        int
}

// String returns a name for a subtest.
func (p Point) String() string {
	return fmt.Sprintf("%s_%s_object%d_write%d", p.Verb, strings.ReplaceAll(p.Resource, "/", "."), p.Object, p.K)
}

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// call is a request in the terms of the API server.
type call struct {
	*request.RequestInfo
	name string // of the object; for a create it is in the body
}

func parseCall(req *http.Request) (call, error) {
	info, err := requestInfos.NewRequestInfo(req)
	if err != nil {
		return call{}, fmt.Errorf("reading request %s %s: %w", req.Method, req.URL.Path, err)
	}
	c := call{RequestInfo: info, name: info.Name}
	if c.name == "" && info.Verb == "create" && req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return call{}, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(body, &object); err != nil {
			return call{}, fmt.Errorf("the body of %s %s is not JSON: %w", req.Method, req.URL.Path, err)
		}
		c.name = object.Name
	}
	return c, nil
}

// resource returns the resource with its subresource.
func (c call) resource() string {
	if c.Subresource != "" {
		return c.Resource + "/" + c.Subresource
	}
	return c.Resource
}

func (c call) isWrite() bool {
	switch c.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return c.IsResourceRequest
	default:
		return false
	}
}

func (c call) isEvent() bool { return c.Resource == "events" }

// counter assigns points to the writes of one run.
type counter struct {
	mu      sync.Mutex
	objects map[string]map[string]int // resource -> name -> number
	writes  map[Point]int             // with K 0 -> number of writes
}

// next returns the point of the write.
func (n *counter) next(c call) Point {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.objects == nil {
		n.objects, n.writes = map[string]map[string]int{}, map[Point]int{}
	}
	names := n.objects[c.Resource]
	if names == nil {
		names = map[string]int{}
		n.objects[c.Resource] = names
	}
	if names[c.name] == 0 {
		names[c.name] = len(names) + 1
	}
	point := Point{Verb: c.Verb, Resource: c.resource(), Object: names[c.name]}
	n.writes[point]++
	point.K = n.writes[point]
	return point
}
