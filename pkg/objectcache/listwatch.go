// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// openFunc returns what lists and watches a resource within a scope. known returns objects that need not be decoded again.
type openFunc func(resource schema.GroupVersionResource, within scope, known func(namespace, name []byte) *RawObject) (cache.ListerWatcher, error)

// opener returns an openFunc for an API server.
func opener(config *rest.Config, keepManagedFields bool) (openFunc, error) {
	config = rest.CopyConfig(config)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("objectcache: making an HTTP client: %w", err)
	}
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // not used: each request has its whole path
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	return func(resource schema.GroupVersionResource, within scope, known func(namespace, name []byte) *RawObject) (cache.ListerWatcher, error) {
		d := &decoder{parser: parser{keepManagedFields: keepManagedFields, known: known}}
		config := rest.CopyConfig(config)
		config.NegotiatedSerializer = d.negotiated()
		client, err := rest.RESTClientForConfigAndClient(config, httpClient)
		if err != nil {
			return nil, err
		}
		l := &listWatch{client: client, decoder: d, resource: resource, scope: within}
		return &cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}, nil
	}, nil
}

// listWatch lists and watches by HTTP.
type listWatch struct {
	client   *rest.RESTClient
	decoder  *decoder
	resource schema.GroupVersionResource
	scope    scope
}

func (l *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	body, err := l.request(options).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return l.decoder.list(body)
}

func (l *listWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return l.request(options).Watch(ctx)
}

func (l *listWatch) request(options metav1.ListOptions) *rest.Request {
	path := []string{"/apis", l.resource.Group, l.resource.Version}
	if l.resource.Group == "" {
		path = []string{"/api", l.resource.Version}
	}
	if l.scope.namespace != "" {
		path = append(path, "namespaces", l.scope.namespace)
	}
	if l.scope.name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.scope.name).String()
	}
	options.LabelSelector = l.scope.selectorText
	return l.client.Get().AbsPath(append(path, l.resource.Resource)...).SpecificallyVersionedParams(&options, metav1.ParameterCodec,
		schema.GroupVersion{Version: "v1"})
}

// reportingListWatch reports the progress of listing and watching to the feed.
type reportingListWatch struct {
	cache.ListerWatcher
	source *source
}

// IsWatchListSemanticsUnSupported is called by the Reflector: fakes return true.
func (r *reportingListWatch) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.ListerWatcher)
}

// ListWithContext implements cache.ListerWithContext.
func (r *reportingListWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		// The Reflector accepts any old state. After a restart, an API server that is behind the others might not have what we
		// wrote before.
		options.ResourceVersion = ""
	}
	if options.Continue == "" {
		r.source.feed.begin(r.source)
	}
	list, err := cache.ToListerWithContext(r.ListerWatcher).ListWithContext(ctx, options)
	if err != nil {
		r.failed(ctx, "list", err)
	}
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (r *reportingListWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		r.source.feed.begin(r.source)
	} else if err := r.source.mayWatch(); err != nil {
		return nil, err
	}
	w, err := cache.ToWatcherWithContext(r.ListerWatcher).WatchWithContext(ctx, options)
	if err == nil {
		r.source.feed.accept(r.source, options.SendInitialEvents != nil, w)
		return w, nil
	}
	r.failed(ctx, "watch", err)
	if options.SendInitialEvents != nil && !expired(err) {
		// After some of these errors the Reflector would wait without checking the context. After this one it lists again.
		err = errors.New(err.Error())
	}
	return nil, err
}

// failed reports an error, unless it is a normal one.
func (r *reportingListWatch) failed(ctx context.Context, verb string, err error) {
	if ctx.Err() == nil && !expired(err) {
		r.source.feed.report(r.source, explain(r.source.feed.key.resource, &r.source.scope, verb, err))
	}
}

// expired reports errors after which the Reflector lists from now.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
