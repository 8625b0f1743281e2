// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/typed/immortalcontainers/v1alpha1"
)

// Client replays what was recorded, in one namespace. Its phases follow one another: in the second it goes on with the
// ImmortalContainers and the Pods of the first.
type Client struct {
	namespace  string
	workers    int
	containers v1alpha1.ImmortalContainerInterface
	pods       typedcorev1.PodInterface
	events     typedcorev1.EventInterface

	objects map[string]*object // nil until the first phase; then the map does not change
	queue   chan *object       // those that a worker may go on with
	lost    chan error         // the watch, whose end no phase outlasts
}

const (
	managedPods = "app.kubernetes.io/managed-by=millwright"
	podSuffix   = "-immortalpod"
)

// New returns a client that works on so many objects at the same time. Like the operator it sets itself no limits, speaks
// JSON about our own kinds and protobuf about the others, all over one connection.
func New(config *rest.Config, namespace string, workers int) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the bare client: %w", err)
	}
	client, err := versioned.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the bare client: %w", err)
	}
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	kubeClient, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the bare client: %w", err)
	}
	return &Client{
		namespace:  namespace,
		workers:    workers,
		containers: client.ImmortalcontainersV1alpha1().ImmortalContainers(namespace),
		pods:       kubeClient.CoreV1().Pods(namespace),
		events:     kubeClient.CoreV1().Events(namespace),
		lost:       make(chan error, 1),
	}, nil
}

// Phase is what is to be replayed at once.
type Phase struct {
	steps  map[string][]step
	events int
	// LeftOut is the number of recorded requests that are not replayed.
	LeftOut int
}

// NewPhase prepares the replay of what was recorded.
func NewPhase(requests []traffic.Request) (*Phase, error) {
	steps, leftOut, err := scripts(requests)
	if err != nil {
		return nil, err
	}
	phase := &Phase{steps: steps, LeftOut: leftOut}
	for _, steps := range steps {
		for _, s := range steps {
			if s.event != nil {
				phase.events++
			}
		}
	}
	return phase, nil
}

// Run replays a phase and returns when all its requests were answered. The first phase begins by reading which
// ImmortalContainers there are, and watches their Pods from then on, until the context ends.
func (c *Client) Run(ctx context.Context, phase *Phase) error {
	if c.objects == nil {
		if err := c.begin(ctx); err != nil {
			return err
		}
	}
	for name, object := range c.objects {
		object.steps = phase.steps[name]
		if len(object.steps) == 0 {
			return fmt.Errorf("nothing was recorded of ImmortalContainer %s/%s: replay on the names that were recorded", c.namespace, name)
		}
	}
	return c.newRun(phase).run(ctx)
}

// begin reads the objects and watches their Pods, which do not exist yet.
func (c *Client) begin(ctx context.Context) error {
	list, err := c.containers.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the ImmortalContainers of namespace %s: %w", c.namespace, err)
	}
	objects := make(map[string]*object, len(list.Items))
	for i := range list.Items {
		container := &list.Items[i]
		container.ManagedFields = nil // as the operator's caches do; an update leaves them as they are
		objects[container.Name] = &object{container: container, pod: gone}
	}
	c.objects = objects
	c.queue = make(chan *object, len(objects)) // each is in it once at most
	return c.watchPods(ctx)
}

// watchPods hands objects that wait for their Pod back to the workers, until the context ends.
func (c *Client) watchPods(ctx context.Context) error {
	watcher, err := c.pods.Watch(ctx, metav1.ListOptions{LabelSelector: managedPods})
	if err != nil {
		return fmt.Errorf("watching the Pods of namespace %s: %w", c.namespace, err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				break
			}
			if o := c.objects[strings.TrimSuffix(pod.Name, podSuffix)]; o != nil && o.saw(event.Type, pod) {
				c.queue <- o
			}
		}
		c.lost <- fmt.Errorf("the watch of the Pods of namespace %s has ended", c.namespace)
	}()
	return nil
}
