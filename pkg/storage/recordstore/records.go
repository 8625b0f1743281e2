// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// records makes the requests. Bodies and answers are JSON that other packages encode and decode; errors are those of the API server.
type records struct {
	client *rest.RESTClient
	path   []string // of the API version
	plural string
}

func newRecords(config *rest.Config, resource resource) (*records, error) {
	config = rest.CopyConfig(config)
	version := resource.records.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.QPS, config.RateLimiter = -1, nil // the limits of our callers apply to their requests to us
	config.DisableCompression = true         // it takes longer to compress a list than to send it to a neighbour
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // a Status is all that the client decodes
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &records{client: client, path: []string{"/apis", version.Group, version.Version}, plural: resource.records.Resource}, nil
}

func (r *records) get(ctx context.Context, at location, resourceVersion string) ([]byte, error) {
	request := r.client.Get().AbsPath(r.objectPath(at)...)
	if resourceVersion != "" {
		request.Param("resourceVersion", resourceVersion)
	}
	return answer(ctx, request)
}

func (r *records) create(ctx context.Context, at location, record []byte) ([]byte, error) {
	return answer(ctx, r.client.Post().AbsPath(r.listPath(at)...).Body(record).SetHeader("Content-Type", runtime.ContentTypeJSON))
}

func (r *records) update(ctx context.Context, at location, record []byte) ([]byte, error) {
	return answer(ctx, r.client.Put().AbsPath(r.objectPath(at)...).Body(record).SetHeader("Content-Type", runtime.ContentTypeJSON))
}

// remove deletes a record if it has that resourceVersion still.
func (r *records) remove(ctx context.Context, at location, resourceVersion uint64) error {
	options := fmt.Sprintf(`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":%q}}`, strconv.FormatUint(resourceVersion, 10))
	request := r.client.Delete().AbsPath(r.objectPath(at)...).Body([]byte(options)).SetHeader("Content-Type", runtime.ContentTypeJSON)
	_, err := answer(ctx, request)
	return err
}

// list asks for the records at a location, and returns the answer while it comes in.
func (r *records) list(ctx context.Context, at location, options metav1.ListOptions) (io.ReadCloser, error) {
	if at.name != "" {
		options.FieldSelector = join(options.FieldSelector, fields.OneTermEqualSelector(metav1.ObjectNameField, at.name).String())
	}
	request := r.client.Get().AbsPath(r.listPath(at)...)
	request.SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	return request.MaxRetries(0).Stream(ctx) // see withDelay
}

func join(selector, term string) string {
	if selector == "" {
		return term
	}
	return selector + "," + term
}

func (r *records) listPath(at location) []string {
	if at.namespace == "" {
		return append(r.path[:len(r.path):len(r.path)], r.plural)
	}
	return append(r.path[:len(r.path):len(r.path)], "namespaces", at.namespace, r.plural)
}

func (r *records) objectPath(at location) []string { return append(r.listPath(at), at.name) }

func answer(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.MaxRetries(0).Do(ctx) // see withDelay
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
