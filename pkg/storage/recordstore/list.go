// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// GetList implements storage.Interface.
func (s *store[T, P]) GetList(ctx context.Context, key string, options storage.ListOptions, listObject runtime.Object) error {
	at, err := s.several(key, options.Recursive)
	if err != nil {
		return err
	}
	pointer, err := meta.GetItemsPtr(listObject)
	if err != nil {
		return err
	}
	items, ok := pointer.(*[]T)
	if !ok {
		return fmt.Errorf("the storage of %T was given a %T to list into", *new(P), listObject)
	}
	list, err := meta.ListAccessor(listObject)
	if err != nil {
		return err
	}
	found, answered, err := s.pages(ctx, at, options, *items)
	if err != nil {
		return err
	}
	*items = found
	list.SetResourceVersion(answered.ResourceVersion)
	list.SetContinue(answered.Continue)
	list.SetRemainingItemCount(answered.RemainingItemCount)
	options.Predicate.SetShardInfoOnList(listObject)
	return nil
}

// pages asks for pages until as many objects are found as are wanted. No page is longer than what is still missing, so that the
// token of the last one continues exactly after the last object that was found.
func (s *store[T, P]) pages(ctx context.Context, at location, options storage.ListOptions, items []T) ([]T, metav1.ListMeta, error) {
	selection := split(options.Predicate)
	request := metav1.ListOptions{
		LabelSelector:        selection.labels,
		FieldSelector:        selection.fields,
		ResourceVersion:      options.ResourceVersion,
		ResourceVersionMatch: options.ResourceVersionMatch,
		Limit:                options.Predicate.Limit,
		Continue:             options.Predicate.Continue,
	}
	if items == nil {
		items = []T{}
	}
	for {
		found, answered, err := s.page(ctx, at, request, &selection, items)
		if err != nil {
			return nil, metav1.ListMeta{}, err
		}
		items = found
		if !selection.here.Empty() {
			answered.RemainingItemCount = nil // it would count what is not selected here
		}
		missing := options.Predicate.Limit - int64(len(items))
		if answered.Continue == "" || missing <= 0 {
			return items, answered, nil
		}
		// The token has the resourceVersion of the first page.
		request.ResourceVersion, request.ResourceVersionMatch = "", ""
		request.Limit, request.Continue = missing, answered.Continue
	}
}

// page appends the objects of one page.
func (s *store[T, P]) page(ctx context.Context, at location, request metav1.ListOptions, selection *selection, items []T) ([]T, metav1.ListMeta, error) {
	body, err := s.records.list(ctx, at, request)
	if err != nil {
		return nil, metav1.ListMeta{}, s.explain(err, at)
	}
	defer body.Close()
	var corrupt []error
	answered, err := readList(body, func(record []byte) {
		items = append(items, *new(T))
		object := P(&items[len(items)-1])
		if err := s.decode(record, at.key, object); err != nil {
			corrupt = append(corrupt, err)
		} else if selection.matches(object) {
			return
		}
		items = items[:len(items)-1]
	})
	if err != nil {
		return nil, metav1.ListMeta{}, s.explain(fmt.Errorf("reading a list of records: %w", err), at)
	}
	if len(corrupt) != 0 {
		return nil, metav1.ListMeta{}, storage.NewCorruptObjError(at.key, errors.Join(corrupt...))
	}
	return items, answered.meta, nil
}

// listResult is what a list has in addition to its items.
type listResult struct {
	meta  metav1.ListMeta
	items int
}

// listBuffer is about as much as comes in at a time.
const listBuffer = 32 << 10

// readList reads a list while it comes in, and calls item with each item, which is valid until the call returns. A list that breaks off
// is an error.
func readList(body io.Reader, item func([]byte)) (*listResult, error) {
	list, stream := &listResult{}, newStream(body, listBuffer)
	if err := stream.expect('{'); err != nil {
		return nil, err
	}
	err := stream.members(func(name []byte) error {
		switch string(name) {
		case "items":
			return list.readItems(stream, item)
		case "metadata":
			value, err := stream.value()
			if err != nil {
				return err
			}
			return json.Unmarshal(value, &list.meta)
		default:
			_, err := stream.value()
			return err
		}
	})
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return list, err
}

func (l *listResult) readItems(stream *stream, item func([]byte)) error {
	if there, err := stream.accept('['); !there {
		if err == nil {
			_, err = stream.value() // null
		}
		return err
	}
	for {
		if end, err := stream.accept(']'); end || err != nil {
			return err
		}
		if l.items > 0 {
			if err := stream.expect(','); err != nil {
				return err
			}
		}
		value, err := stream.value()
		if err != nil {
			return err
		}
		l.items++
		item(value)
	}
}
