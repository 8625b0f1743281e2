// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bareclient sends the requests that an operator was seen to send, and nothing else: what it takes is what the API
// server, the scheduler and the nodes take for this work. It has no cache, no queue of keys, and decides nothing.
//
// Each recorded request is sent as it was, in another namespace; UIDs and resourceVersions are those that its own requests
// were answered with. Requests about one object keep their order, and those that were sent at once are sent at once. As many
// objects are worked on at the same time as the operator has workers. Events are posted beside them, as many at a time as the
// operator posts.
//
// It waits for what the recorded requests waited for, on a watch of its own: see [wait].
package bareclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"millwright.dev/hack/bench/traffic"
)

// managed selects the children of our objects.
const managed = "app.kubernetes.io/managed-by=millwright"

// Client replays what was recorded, in one namespace. Its phases follow one another: in the second it goes on with the
// objects of the first.
type Client struct {
	kind      kind
	resource  string // for texts
	namespace string
	workers   int
	rest      rest.Interface
	scripts   map[string]script

	objects map[string]*object // nil until the first phase; then the map does not change
	queue   chan *object       // those that a worker may go on with
	lost    chan error         // the watch, whose end no phase outlasts
}

// New returns a client that works on so many objects of the resource at the same time. Like the operator it sets itself no
// limits, and has one connection.
func New(config *rest.Config, resource, namespace string, workers int, recording traffic.Recording) (*Client, error) {
	k, err := kindOf(resource)
	if err != nil {
		return nil, err
	}
	scripts, err := scripts(k, recording, namespace)
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
		kind: k, resource: resource, namespace: namespace, workers: workers,
		rest: client, scripts: scripts,
		lost: make(chan error, 1),
	}, nil
}

// Run replays a phase and returns when all its requests were answered. The first phase begins by reading which objects there
// are, and watches their children from then on, until the context ends.
func (c *Client) Run(ctx context.Context, phase int) error {
	if c.objects == nil {
		if err := c.begin(ctx); err != nil {
			return err
		}
	}
	for _, object := range c.objects {
		if object.steps = object.script.phases[phase]; len(object.steps) == 0 {
			return fmt.Errorf("nothing was recorded of %s %s/%s in phase %d", c.resource, c.namespace, object.name, phase)
		}
	}
	return c.newRun().run(ctx)
}

// begin reads the objects and watches their children, which do not exist yet.
func (c *Client) begin(ctx context.Context) error {
	content, err := c.rest.Get().AbsPath(fmt.Sprintf(c.kind.list, c.namespace)).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("listing the %s of namespace %s: %w", c.resource, c.namespace, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("reading the list of the %s of namespace %s: %w", c.resource, c.namespace, err)
	}
	objects := make(map[string]*object, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		script, ok := c.scripts[item.Name]
		if !ok {
			return fmt.Errorf("nothing was recorded of %s %s/%s: replay on the names that were recorded", c.resource, c.namespace, item.Name)
		}
		objects[item.Name] = newObject(item, script)
	}
	c.objects = objects
	c.queue = make(chan *object, len(objects)) // each is in it once at most
	if c.kind.children == "" {
		return nil
	}
	return c.watchChildren(ctx)
}

// watchChildren hands objects that wait for their child back to the workers, until the context ends.
func (c *Client) watchChildren(ctx context.Context) error {
	path := fmt.Sprintf(c.kind.children, c.namespace)
	watcher, err := c.rest.Get().AbsPath(path).Param("labelSelector", managed).Param("watch", "true").Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching %s: %w", path, err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			child, ok := event.Object.(metav1.Object)
			if event.Type == watch.Error || !ok {
				break
			}
			if o := c.objects[strings.TrimSuffix(child.GetName(), c.kind.childSuffix)]; o != nil && o.saw(event.Type, child) {
				c.queue <- o
			}
		}
		c.lost <- fmt.Errorf("the watch of %s has ended", path)
	}()
	return nil
}
