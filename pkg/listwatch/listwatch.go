// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/generated/clientset/versioned/scheme"
)

// maxRetries is how often a watch is requested again when its connection breaks, each time after retryDelay. These are the numbers of the generated clients.
const (
	maxRetries = 10
	retryDelay = time.Second
)

// Resource is what is listed and watched.
type Resource struct {
	// Client of the group and version.
	Client rest.Interface
	// Name of the resource, such as helloapps.
	Name string
	// Namespace of the objects; "" for all.
	Namespace string
	// Report is called with an object that cannot be decoded, each time that it is received. The object has its metadata only.
	Report func(object runtime.Object, err error)
	// Known returns an object as the informer has it, which may be older than the last event; nil if it has none. Optional.
	Known func(name cache.ObjectName) runtime.Object
}

// New returns what an informer lists and watches the resource with.
func New(resource Resource) *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: resource.list, WatchFuncWithContext: resource.watch}
}

func (r *Resource) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	result := r.get(options).Do(ctx)
	if err := result.Error(); err != nil { // has the Status of the answer, which that of Raw lacks
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, err
	}
	return r.decodeList(text)
}

func (r *Resource) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	body, err := r.get(options).Stream(ctx)
	for attempt := 0; isBroken(err) && attempt < maxRetries; attempt++ {
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
		}
		body, err = r.get(options).Stream(ctx)
	}
	switch {
	case isBroken(err):
		return watch.NewEmptyWatch(), nil // the informer watches again from where it is, while it would list again after an error
	case err != nil:
		return nil, err
	}
	return watch.NewStreamWatcher(newEvents(r, body), apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// isBroken reports whether a connection has ended without an answer. Stream does not retry that, but the generated clients do.
func isBroken(err error) bool { return err != nil && (net.IsProbableEOF(err) || net.IsTimeout(err)) }

// get is the request that the generated clients send.
func (r *Resource) get(options metav1.ListOptions) *rest.Request {
	var timeout time.Duration
	if options.TimeoutSeconds != nil {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return r.Client.Get().NamespaceIfScoped(r.Namespace, r.Namespace != "").Resource(r.Name).VersionedParams(&options, scheme.ParameterCodec).Timeout(timeout)
}
