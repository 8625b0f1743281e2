// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectwriter writes objects of any kind as JSON. What the API server answers comes back as objectcache.RawObjects: no tree
// is made of it.
//
// Errors are those of the API server (see k8s.io/apimachinery/pkg/api/errors), or of the way to it. What was being done
// is for the caller to add.
package objectwriter

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
)

// Writer writes objects of any kind. It may be used from everywhere at a time.
type Writer struct{ client *rest.RESTClient }

// New returns a Writer for the API server of the configuration.
func New(config *rest.Config) (*Writer, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // not used: each request has its whole path
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for errors
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("objectwriter: making a client: %w", err)
	}
	return &Writer{client}, nil
}

// Name identifies an object. The namespace of cluster-scoped objects is "".
type Name struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

func (n Name) path(subresource ...string) []string {
	path := []string{"/apis", n.Resource.Group, n.Resource.Version}
	if n.Resource.Group == "" {
		path = []string{"/api", n.Resource.Version}
	}
	if n.Namespace != "" {
		path = append(path, "namespaces", n.Namespace)
	}
	path = append(path, n.Resource.Resource)
	if n.Name != "" {
		path = append(path, n.Name)
	}
	return append(path, subresource...)
}

// Get reads an object from the API server itself.
func (w *Writer) Get(ctx context.Context, name Name) (*objectcache.RawObject, error) {
	return answer(w.client.Get().AbsPath(name.path()...).Do(ctx))
}

// GetManaged is a Get of an object with its managedFields.
func (w *Writer) GetManaged(ctx context.Context, name Name) (*objectcache.RawObject, error) {
	return parsed(w.client.Get().AbsPath(name.path()...).Do(ctx), true)
}

// Create creates an object from its JSON, which has its name. That of the argument may be empty.
func (w *Writer) Create(ctx context.Context, name Name, object []byte) (*objectcache.RawObject, error) {
	name.Name = ""
	return answer(with(w.client.Post().AbsPath(name.path()...), object).Do(ctx))
}

// TryCreate is a Create that creates nothing, a dry run: it returns the object as it would be created.
func (w *Writer) TryCreate(ctx context.Context, name Name, object []byte) (*objectcache.RawObject, error) {
	name.Name = ""
	return answer(with(w.client.Post().AbsPath(name.path()...).Param("dryRun", metav1.DryRunAll), object).Do(ctx))
}

// Update replaces an object. The UID and resourceVersion in its JSON are preconditions.
func (w *Writer) Update(ctx context.Context, name Name, object []byte) (*objectcache.RawObject, error) {
	return answer(with(w.client.Put().AbsPath(name.path()...), object).Do(ctx))
}

// UpdateStatus replaces the status of an object, and nothing else of it.
func (w *Writer) UpdateStatus(ctx context.Context, name Name, object []byte) (*objectcache.RawObject, error) {
	return answer(with(w.client.Put().AbsPath(name.path("status")...), object).Do(ctx))
}

// Patch changes an object, or a subresource of it, by a JSON merge patch (RFC 7386). The UID and resourceVersion in the patch are preconditions.
func (w *Writer) Patch(ctx context.Context, name Name, patch []byte, subresource ...string) (*objectcache.RawObject, error) {
	request := w.client.Patch(types.MergePatchType).AbsPath(name.path(subresource...)...)
	return answer(request.Body(patch).Do(ctx))
}

// Apply is a server-side apply by a manager. The UID and resourceVersion in the configuration are preconditions: with a UID nothing is created. With force
// the manager takes fields from others, without it that is a conflict. The API server is not asked to warn of duplicate keys, for which it would parse the
// configuration a second time; it refuses unknown fields all the same.
func (w *Writer) Apply(ctx context.Context, name Name, configuration []byte, manager string, force bool) (*objectcache.RawObject, error) {
	return answer(w.apply(name, configuration, manager, force).Do(ctx))
}

// TryApply is an Apply with force that changes nothing, a dry run: it returns the object as it would be.
func (w *Writer) TryApply(ctx context.Context, name Name, configuration []byte, manager string) (*objectcache.RawObject, error) {
	return answer(w.apply(name, configuration, manager, true).Param("dryRun", metav1.DryRunAll).Do(ctx))
}

func (w *Writer) apply(name Name, configuration []byte, manager string, force bool) *rest.Request {
	return w.client.Patch(types.ApplyPatchType).AbsPath(name.path()...).Param("fieldManager", manager).Param("force", strconv.FormatBool(force)).
		Param("fieldValidation", metav1.FieldValidationIgnore).Body(configuration)
}

// Delete deletes the object that has the UID. What it owns is deleted after it.
func (w *Writer) Delete(ctx context.Context, name Name, uid types.UID) error {
	background := metav1.DeletePropagationBackground
	options, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
	if err != nil {
		return err
	}
	return with(w.client.Delete().AbsPath(name.path()...), options).Do(ctx).Error()
}

func with(request *rest.Request, body []byte) *rest.Request {
	return request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body)
}

func answer(result rest.Result) (*objectcache.RawObject, error) { return parsed(result, false) }

func parsed(result rest.Result, keepManagedFields bool) (*objectcache.RawObject, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, err
	}
	object, err := objectcache.Parse(text, keepManagedFields)
	if err != nil {
		return nil, fmt.Errorf("reading what the API server answered: %w", err)
	}
	return object, nil
}
