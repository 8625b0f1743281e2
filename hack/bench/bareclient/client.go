// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bareclient sends the requests that an operator sent, and nothing else. Its time is what the API server, the scheduler and the
// nodes need for this work. It has no cache and no queue of keys, and decides nothing.
//
// Each recorded request is sent as it was, in another namespace. UIDs and resourceVersions are those that its own requests were
// answered with. Requests about one object keep their order; requests that were sent concurrently are sent concurrently. The number of
// objects that are worked on at the same time is the number of the operator's workers. Events are posted by goroutines of their own, as
// the operator does. It waits for what the recorded requests waited for, on a watch of its own: see [Wait].
package bareclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"millwright.dev/hack/bench/traffic"
)

// eventPosters is the number of events that the operator posts concurrently. It posts those of one object one after the other.
const eventPosters = 16

// Kind is what must be known of a kind of objects. The rest is in the recording.
type Kind struct {
	// Children are what requests wait for. Without a resource they wait for nothing, and go on from the last answer.
	Children schema.GroupVersionResource
	// WaitBefore returns what a request waited for.
	WaitBefore func(traffic.Request) (Wait, error)
}

// Wait reports whether the child of an object is what a request waited for. It is called with nil while there is no child.
type Wait func(child metav1.Object) bool

// Client replays a recording in one namespace. Its phases follow one another: the second goes on with the objects of the first.
type Client struct {
	kind             Kind
	recording        traffic.Recording
	namespace        string
	workers, posters chan struct{} // a place for each that is busy
	rest             rest.Interface
	scripts          map[string]script
	objects          map[string]*object // nil before the first phase; then the map does not change
}

// object is worked on by one goroutine at a time.
type object struct {
	name string

	mu      sync.Mutex
	now     map[string]string // the value that replaces a recorded UID or resourceVersion
	child   metav1.Object     // nil if there is none
	changed chan struct{}     // closed when the child changes
}

// New returns a client that works on that number of objects concurrently. Like the operator it sets itself no limits, and has one connection.
func New(config *rest.Config, kind Kind, namespace string, workers int, recording traffic.Recording) (*Client, error) {
	scripts, err := scripts(kind, recording, namespace)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf // of the watch
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the bare client: %w", err)
	}
	return &Client{
		kind: kind, recording: recording, namespace: namespace, rest: client, scripts: scripts,
		workers: make(chan struct{}, workers), posters: make(chan struct{}, eventPosters),
	}, nil
}

// Run replays a phase and returns when all its requests were answered, or one has failed. The first phase begins with a list of the
// objects, and watches their children from then on, until the context ends.
func (c *Client) Run(ctx context.Context, phase int) error {
	if c.objects == nil {
		if err := c.begin(ctx); err != nil {
			return err
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	start := func(work func() error) {
		running.Go(func() {
			if err := work(); err != nil {
				fail(err)
			}
		})
	}
	for _, o := range c.objects {
		start(func() error {
			return c.replay(ctx, o, c.scripts[o.name].phases[phase], func(events []*recorded) {
				start(func() error { return c.post(ctx, o, events) })
			})
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

func (c *Client) begin(ctx context.Context) error {
	path := c.path(c.recording.Resource)
	content, err := c.rest.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("listing %s: %w", path, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("reading the list of %s: %w", path, err)
	}
	c.objects = make(map[string]*object, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		script, ok := c.scripts[item.Name]
		if !ok {
			return fmt.Errorf("there is no recorded request of %s/%s: create objects with the names that were recorded", c.namespace, item.Name)
		}
		o := &object{name: item.Name, now: map[string]string{}, changed: make(chan struct{})}
		o.replace(script.before, traffic.Identity{UID: item.UID, ResourceVersion: item.ResourceVersion})
		c.objects[item.Name] = o
	}
	if c.kind.Children.Resource == "" {
		return nil
	}
	return c.watchChildren(ctx)
}

func (c *Client) path(resource schema.GroupVersionResource) string {
	prefix := "/api/" + resource.Version
	if resource.Group != "" {
		prefix = "/apis/" + resource.GroupVersion().String()
	}
	return fmt.Sprintf("%s/namespaces/%s/%s", prefix, c.namespace, resource.Resource)
}

// watchChildren keeps the children of the objects until the context ends. If the watch ends before, objects wait for ever: the caller has a limit.
func (c *Client) watchChildren(ctx context.Context) error {
	path := c.path(c.kind.Children)
	watcher, err := c.rest.Get().AbsPath(path).Param("labelSelector", "app.kubernetes.io/managed-by=millwright").Param("watch", "true").Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching %s: %w", path, err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			child, ok := event.Object.(metav1.Object)
			if !ok {
				return
			}
			if o := c.objects[traffic.ObjectIn(child.GetName())]; o != nil {
				o.observe(event.Type, child)
			}
		}
	}()
	return nil
}

// replay does the steps of an object. It occupies a worker while it does not wait for the child.
func (c *Client) replay(ctx context.Context, o *object, steps []step, post func(events []*recorded)) error {
	for len(steps) > 0 {
		if err := o.await(ctx, steps[0].wait); err != nil {
			return err
		}
		c.workers <- struct{}{}
		for next := true; next; next = len(steps) > 0 && o.ready(steps[0].wait) {
			if err := c.do(ctx, o, steps[0].requests); err != nil {
				<-c.workers
				return err
			}
			post(steps[0].events)
			steps = steps[1:]
		}
		<-c.workers
	}
	return nil
}

// do sends requests concurrently.
func (c *Client) do(ctx context.Context, o *object, requests []*recorded) error {
	errs := make([]error, len(requests))
	var all sync.WaitGroup
	for i, request := range requests {
		all.Go(func() { errs[i] = c.send(ctx, o, request) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// post sends events one after the other.
func (c *Client) post(ctx context.Context, o *object, events []*recorded) error {
	for _, event := range events {
		c.posters <- struct{}{}
		err := c.send(ctx, o, event)
		<-c.posters
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends the request with the values of now.
func (c *Client) send(ctx context.Context, o *object, request *recorded) error {
	sent := c.rest.Verb(request.Method).RequestURI(string(o.fill(request.uri))).SetHeader("Accept", request.Accept)
	if len(request.Body) > 0 {
		sent = sent.SetHeader("Content-Type", request.ContentType).Body(o.fill(request.body))
	}
	result := sent.Do(ctx)
	err := result.Error() // with the message of the API server, which Raw does not have
	switch {
	case request.Method == http.MethodGet && apierrors.IsNotFound(err):
		return nil // it does not matter what is read, nor whether it exists
	case err != nil:
		return fmt.Errorf("replaying %s for %s/%s: %w", request.Kind(), c.namespace, o.name, err)
	case !request.answerCounts:
		return nil
	}
	answer, _ := result.Raw()
	now, err := traffic.IdentityOf(answer)
	if err != nil {
		return fmt.Errorf("reading the answer to %s for %s/%s: %w", request.Kind(), c.namespace, o.name, err)
	}
	o.replace(request.Answer, now)
	return nil
}

func (o *object) observe(event watch.EventType, child metav1.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.child = child; event == watch.Deleted {
		o.child = nil
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *object) ready(wait Wait) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return wait == nil || wait(o.child)
}

func (o *object) await(ctx context.Context, wait Wait) error {
	for {
		o.mu.Lock()
		changed, ready := o.changed, wait == nil || wait(o.child)
		o.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fill returns the URI or the body of a request with the values of now.
func (o *object) fill(t template) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.fill(o.now)
}

func (o *object) replace(recorded, now traffic.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now[string(recorded.UID)], o.now[recorded.ResourceVersion] = string(now.UID), now.ResourceVersion
}
