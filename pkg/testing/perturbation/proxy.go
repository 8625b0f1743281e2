// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errKilled = errors.New("perturbation: this instance was killed")

// proxy sends the requests of one instance of a controller to the API server.
type proxy struct {
	run      *run
	instance int
	next     http.RoundTripper
	alive    context.Context
	kill     context.CancelFunc

	mu      sync.Mutex
	watches map[string]*gate // by resource
	past    *past            // the version that answers the first LIST
	closed  chan struct{}    // not nil while all watches are cut: closed when new ones may start
	missing map[string]bool  // the resources whose watches were cut and have not started again
}

// past is a resource as it was at a version.
type past struct {
	resource        string
	resourceVersion string
}

// RoundTrip implements http.RoundTripper.
func (p *proxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.alive.Err() != nil {
		return nil, errKilled
	}
	c, err := parseCall(req)
	if err != nil {
		return nil, err
	}
	switch {
	case !c.IsResourceRequest:
		return p.forward(req, c)
	case c.Verb == "watch":
		return p.watch(req, c)
	case c.Verb == "list":
		return p.list(req, c)
	case c.isEvent() && c.isWrite():
		if p.run.pattern.loseEvents {
			return status(req, apierrors.NewInternalError(errors.New("perturbation: events are lost"))), nil
		}
		return p.forward(req, c)
	case c.isWrite():
		return p.write(req, c)
	default:
		return p.forward(req, c)
	}
}

// write counts the write. The pattern handles it if the write is at the point.
func (p *proxy) write(req *http.Request, c call) (*http.Response, error) {
	point := p.run.counter.next(c)
	p.run.reached(point)
	if p.run.strikes(point) {
		p.run.history.add("#%d %s %s/%s: %s strikes", p.instance, c.Verb, c.resource(), c.name, p.run.pattern.Name)
		return p.run.pattern.strike(&strike{proxy: p, req: req, call: c})
	}
	return p.forward(req, c)
}

// forward sends the request to the API server. The request ends with the instance.
func (p *proxy) forward(req *http.Request, c call) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(p.alive, cancel)
	resp, err := p.next.RoundTrip(req.WithContext(ctx))
	outcome, code := "no answer: ", 0
	if err == nil {
		outcome, code = http.StatusText(resp.StatusCode), resp.StatusCode
		resp.Body = &closer{ReadCloser: resp.Body, close: func() { stop(); cancel() }}
	} else {
		stop()
		cancel()
		outcome += err.Error()
	}
	if c.isWrite() && !c.isEvent() {
		p.run.history.wrote()
		p.run.sent(Write{Instance: p.instance, Verb: c.Verb, Resource: c.resource(), Name: c.name, Code: code})
	}
	p.run.history.add("#%d %s %s/%s: %s", p.instance, c.Verb, c.resource(), c.name, outcome)
	return resp, err
}

// list answers the first LIST of a resource with an old version if the pattern needs it.
func (p *proxy) list(req *http.Request, c call) (*http.Response, error) {
	p.run.watched(c.Resource)
	p.mu.Lock()
	past := p.past
	if past != nil && past.resource == c.Resource {
		p.past = nil
	} else {
		past = nil
	}
	p.mu.Unlock()
	if past != nil {
		query := req.URL.Query()
		query.Set("resourceVersion", past.resourceVersion)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		query.Del("continue")
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
		p.freeze(c.Resource)
		p.run.history.add("#%d list %s: served from version %s", p.instance, c.Resource, past.resourceVersion)
	}
	return p.forward(req, c)
}

// watch starts a watch through the gate of its resource.
func (p *proxy) watch(req *http.Request, c call) (*http.Response, error) {
	p.run.watched(c.Resource)
	p.mu.Lock()
	initialEvents := req.URL.Query().Get("sendInitialEvents") == "true"
	refuse := p.past != nil && p.past.resource == c.Resource && initialEvents
	closed := p.closed
	p.mu.Unlock()
	if refuse {
		return status(req, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)), nil // the client falls back to a LIST
	}
	if closed != nil {
		select {
		case <-closed:
		case <-p.alive.Done():
			return nil, errKilled
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
		return status(req, apierrors.NewResourceExpired("perturbation: the watch was cut")), nil // the client lists again
	}
	resp, err := p.forward(req, c)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	p.cameBack(c.Resource)
	gate := p.gateOf(c.Resource)
	resp.Body = gate.guard(resp.Body, p.alive)
	return resp, nil
}

func (p *proxy) gateOf(resource string) *gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watches == nil {
		p.watches = map[string]*gate{}
	}
	if p.watches[resource] == nil {
		p.watches[resource] = newGate()
	}
	return p.watches[resource]
}

// freeze holds back the watch of the resource for freezeTime.
func (p *proxy) freeze(resource string) {
	gate := p.gateOf(resource)
	gate.shut()
	p.run.holdFor(freezeTime, func() {
		p.run.history.add("#%d watch of %s goes on", p.instance, resource)
		gate.open()
	})
}

// cutWatches ends all watches. The client can start them again, with a new LIST, after the returned function is called. The run does not
// converge before that.
func (p *proxy) cutWatches() (restore func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed := make(chan struct{})
	p.closed = closed
	p.missing = map[string]bool{}
	for resource, gate := range p.watches {
		gate.cut()
		p.missing[resource] = true
	}
	p.watches = nil
	if len(p.missing) > 0 {
		p.run.hold()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = nil
		close(closed)
	}
}

// cameBack records that a resource is watched again.
func (p *proxy) cameBack(resource string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.missing[resource] {
		return
	}
	delete(p.missing, resource)
	if len(p.missing) == 0 {
		p.run.letGo()
	}
}

// status returns an answer in place of the API server's.
func status(req *http.Request, err *apierrors.StatusError) *http.Response {
	answer := err.Status()
	answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"} // without it clients do not decode it
	body, marshalErr := json.Marshal(answer)
	if marshalErr != nil {
		panic(fmt.Sprintf("encoding a metav1.Status: %v", marshalErr))
	}
	return &http.Response{
		Status: http.StatusText(int(err.Status().Code)), StatusCode: int(err.Status().Code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: req,
	}
}

type closer struct {
	io.ReadCloser
	close func()
}

func (c *closer) Close() error {
	defer c.close()
	return c.ReadCloser.Close()
}
