// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// event makes of an event of records, as it comes in, one of objects. Some types of events may be ignored: they are
// not wanted.
func (s *store[T, P]) event(at location, text []byte) (event watch.Event, wanted bool) {
	var record []byte
	err := members(text, func(name, value []byte) {
		switch string(name) {
		case "type":
			event.Type = eventType(unquoted(value))
		case "object":
			record = value
		}
	})
	object := P(new(T))
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		err = s.decode(record, at.key, object)
	case watch.Bookmark:
		err = decodeBookmark(record, object)
	case watch.Error:
		status := metav1.Status{}
		if err = json.Unmarshal(record, &status); err == nil {
			return failure(s.translate(status)), true
		}
	}
	if err != nil {
		return failure(apierrors.NewInternalError(fmt.Errorf("the watch of the records of %s: %w", s.objects, err)).Status()), true
	}
	event.Object = object
	return event, event.Type != ""
}

// eventType is the type of an event that has to be known, or none.
func eventType(name []byte) watch.EventType {
	for _, known := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(known) == string(name) {
			return known
		}
	}
	return ""
}

// decodeBookmark decodes a bookmark: a resourceVersion, and by an annotation that it ends the initial events.
func decodeBookmark(record []byte, into metav1.Object) error {
	outline, err := outlineOf(record)
	if err != nil {
		return err
	}
	metadata := struct {
		Annotations map[string]string `json:"annotations"`
	}{}
	if err := json.Unmarshal(outline.metadata, &metadata); err != nil {
		return err
	}
	into.SetResourceVersion(string(outline.resourceVersion))
	into.SetAnnotations(metadata.Annotations)
	return nil
}

func failure(status metav1.Status) watch.Event {
	return watch.Event{Type: watch.Error, Object: &status}
}
