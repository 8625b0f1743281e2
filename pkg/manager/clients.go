// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net/http"
	"runtime"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/generated/clientset/versioned"
)

// clientBuilder is replaced in tests by one that returns fakes.
type clientBuilder interface {
	// clients of one component, which refuse to write while mayWrite returns an error.
	clients(component string, mayWrite func() error) (versioned.Interface, kubernetes.Interface, error)
	// informerClients are the same for informers: they wait while the API server cannot be reached or fails.
	informerClients(component string, mayWrite func() error) (versioned.Interface, kubernetes.Interface, error)
	// optionalClient is one for informers of resources that the process can do without.
	optionalClient(component string, mayWrite func() error) (kubernetes.Interface, error)
	// restConfig is the configuration of the clients of one component, for clients of objects of any kind; informerConfig is the same
	// for informers, of resources that need not be served or allowed.
	restConfig(component string, mayWrite func() error) *rest.Config
	informerConfig(component string, mayWrite func() error) *rest.Config
	// checkWatches names the lists and watches of informers that do not succeed. It is a health check.
	checkWatches(*http.Request) error
	// lacks reports whether informers were answered that a resource of ours is not served.
	lacks(schema.GroupVersionResource) bool
	// lists reports whether informers have listed or watched a resource of ours.
	lists(schema.GroupVersionResource) bool
	// electionClient may always write. Each of its requests ends within the timeout, or else a single slow one could
	// outlast the renew deadline.
	electionClient(timeout time.Duration) (coordinationv1client.LeasesGetter, error)
}

// restClients are clients of a real API server. They share its connections.
type restClients struct {
	config  *rest.Config
	version string
	stalls  *stalls
}

func newRESTClients(config *rest.Config, version string) restClients {
	return restClients{config: config, version: version, stalls: newStalls()}
}

func (r restClients) checkWatches(req *http.Request) error { return r.stalls.check(req) }

func (r restClients) lacks(resource schema.GroupVersionResource) bool {
	return r.stalls.lacks(resource)
}

func (r restClients) lists(resource schema.GroupVersionResource) bool {
	return r.stalls.lists(resource)
}

func (r restClients) clients(component string, mayWrite func() error) (versioned.Interface, kubernetes.Interface, error) {
	return build(r.restConfig(component, mayWrite), component)
}

func (r restClients) informerClients(component string, mayWrite func() error) (versioned.Interface, kubernetes.Interface, error) {
	return build(r.steadyConfig(component, mayWrite, false), component)
}

func (r restClients) optionalClient(component string, mayWrite func() error) (kubernetes.Interface, error) {
	_, kubeClient, err := build(r.informerConfig(component, mayWrite), component)
	return kubeClient, err
}

func (r restClients) restConfig(component string, mayWrite func() error) *rest.Config {
	config := r.named(component)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, mayWrite: mayWrite} })
	return config
}

func (r restClients) informerConfig(component string, mayWrite func() error) *rest.Config {
	return r.steadyConfig(component, mayWrite, true)
}

func (r restClients) steadyConfig(component string, mayWrite func() error, lenient bool) *rest.Config {
	config := r.named(component)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &steadyTransport{next: next, stalls: r.stalls, lenient: lenient}
	})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, mayWrite: mayWrite} })
	return config
}

func build(config *rest.Config, component string) (versioned.Interface, kubernetes.Interface, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the clients of %s: %w", component, err)
	}
	client, err := versioned.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("making the clients of %s: %w", component, err)
	}
	kubeClient, err := kubernetes.NewForConfigAndClient(asProtobuf(config), httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("making the clients of %s: %w", component, err)
	}
	return client, kubeClient, nil
}

func (r restClients) electionClient(timeout time.Duration) (coordinationv1client.LeasesGetter, error) {
	config := asProtobuf(r.named("leader-election"))
	config.Timeout = timeout
	// Renewals must never wait behind other requests.
	config.QPS, config.RateLimiter = -1, nil
	client, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of the leader election: %w", err)
	}
	return client, nil
}

// named returns a copy of the config for one component, so that the API server's audit log and metrics distinguish the components.
func (r restClients) named(component string) *rest.Config {
	config := rest.CopyConfig(r.config)
	config.UserAgent = fmt.Sprintf("millwright/%s (%s/%s) %s", r.version, runtime.GOOS, runtime.GOARCH, component)
	// Without compression: between an operator and its API server, CPU time costs more than bytes.
	config.DisableCompression = true
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &retryAfterCap{next} })
	return config
}

// asProtobuf makes clients use protobuf, which is cheaper than JSON on both sides. Only the built-in kinds support it.
func asProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = k8sruntime.ContentTypeProtobuf
	config.AcceptContentTypes = k8sruntime.ContentTypeProtobuf + "," + k8sruntime.ContentTypeJSON
	return config
}
