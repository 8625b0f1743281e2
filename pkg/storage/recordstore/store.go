// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"
)

// readinessTimeout bounds a check of readiness, which has no context.
const readinessTimeout = 3 * time.Second

// object is a pointer to a T that is an object of the API.
type object[T any] interface {
	*T
	DeepCopyInto(*T)
	runtime.Object
	metav1.Object
}

// store implements storage.Interface.
type store[T any, P object[T]] struct {
	resource
	records *records
	decoded decodedCache[T, P]
}

func newStore[T any, P object[T]](config *rest.Config, resource resource) (*store[T, P], error) {
	records, err := newRecords(config, resource)
	if err != nil {
		return nil, fmt.Errorf("making a client for the records of %s: %w", resource.objects, err)
	}
	return &store[T, P]{resource: resource, records: records}, nil
}

// Versioner implements storage.Interface.
func (s *store[T, P]) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Get implements storage.Interface.
func (s *store[T, P]) Get(ctx context.Context, key string, options storage.GetOptions, objectPtr runtime.Object) error {
	at, err := s.object(key)
	if err != nil {
		return err
	}
	into, err := target[T, P](objectPtr)
	if err != nil {
		return err
	}
	answer, err := s.records.get(ctx, at, options.ResourceVersion)
	if err == nil {
		return s.decode(answer, key, into)
	}
	if err = s.explain(err, at); options.IgnoreNotFound && storage.IsNotFound(err) {
		*into = *new(T)
		return nil
	}
	return err
}

// Create implements storage.Interface. Objects live until they are deleted: the time to live is ignored.
func (s *store[T, P]) Create(ctx context.Context, key string, given, out runtime.Object, _ uint64) error {
	at, err := s.object(key)
	if err != nil {
		return err
	}
	object, err := target[T, P](given)
	if err != nil {
		return err
	}
	if object.GetResourceVersion() != "" {
		return storage.ErrResourceVersionSetOnCreate
	}
	data, err := s.encodeChecked(object)
	if err != nil {
		return err
	}
	answer, err := s.write(ctx, at, data, object.GetLabels(), 0)
	if err != nil {
		return s.explain(err, at)
	}
	if out == nil {
		return nil
	}
	into, err := target[T, P](out)
	if err != nil {
		return err
	}
	return s.decode(answer, key, into)
}

// write makes a record, or replaces it when it has that resourceVersion still, and returns the answer.
func (s *store[T, P]) write(ctx context.Context, at location, object []byte, labels map[string]string, resourceVersion uint64) ([]byte, error) {
	body, err := s.record(at, object, labels, resourceVersion)
	if err != nil {
		return nil, err
	}
	if resourceVersion == 0 {
		return s.records.create(ctx, at, body)
	}
	return s.records.update(ctx, at, body)
}

// Stats implements storage.Interface. Sizes are not estimated.
func (s *store[T, P]) Stats(ctx context.Context) (storage.Stats, error) {
	list, err := s.peek(ctx, location{}, metav1.ListOptions{Limit: 1})
	if err != nil {
		return storage.Stats{}, err
	}
	count := int64(list.items)
	if list.meta.RemainingItemCount != nil {
		count += *list.meta.RemainingItemCount
	}
	return storage.Stats{ObjectCount: count}, nil
}

// ReadinessCheck implements storage.Interface: it asks whether the records can be read.
func (s *store[T, P]) ReadinessCheck() error {
	ctx, cancel := context.WithTimeout(context.Background(), readinessTimeout)
	defer cancel()
	// The answer may come from any cache of the API server.
	_, err := s.peek(ctx, absent, metav1.ListOptions{ResourceVersion: "0"})
	return err
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *store[T, P]) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	list, err := s.peek(ctx, absent, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return s.Versioner().ParseResourceVersion(list.meta.ResourceVersion)
}

// absent is the location of an object that does not exist, which the API server finds quickly.
var absent = location{namespace: metav1.NamespaceDefault, name: "absent"}

// peek lists without looking at the items.
func (s *store[T, P]) peek(ctx context.Context, at location, options metav1.ListOptions) (*listResult, error) {
	body, err := s.records.list(ctx, at, options)
	if err != nil {
		return nil, s.explain(err, at)
	}
	defer body.Close()
	list, err := readList(body, func([]byte) {})
	if err != nil {
		return nil, s.explain(err, at)
	}
	return list, nil
}

// RequestWatchProgress implements storage.Interface, for caches, which need another storage than this.
func (s *store[T, P]) RequestWatchProgress(context.Context) error {
	return errors.New("the progress of a watch of records cannot be requested: do not put a cache over recordstore")
}

// EnableResourceSizeEstimation implements storage.Interface, for caches, which need another storage than this.
func (s *store[T, P]) EnableResourceSizeEstimation(storage.KeysFunc) error {
	return errors.New("the API server of the records estimates their sizes: do not put a cache over recordstore")
}

// CompactRevision implements storage.Interface: no compaction is observed here.
func (s *store[T, P]) CompactRevision() int64 { return 0 }
