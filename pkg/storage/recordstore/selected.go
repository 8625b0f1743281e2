// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// selectionFilter remembers which objects a watch that selects here has shown, as they were last: an object that is not selected any more is
// reported as DELETED, in the state before, and one that is selected from now on as ADDED. Labels and names are selected by the API
// server of the records, which does the same there.
type selectionFilter[T any, P object[T]] struct {
	selection *selection
	last      map[location]P
}

// selecting begins to remember, before the watch begins. Of a watch that does not begin with events for what there is, it has to be
// found out what was selected at that time.
func (s *store[T, P]) selecting(ctx context.Context, at location, selection *selection, request *metav1.ListOptions) (*selectionFilter[T, P], error) {
	selected := &selectionFilter[T, P]{selection: selection, last: map[location]P{}}
	begins := request.ResourceVersion == "" || request.ResourceVersion == "0"
	if request.SendInitialEvents == nil && begins || request.SendInitialEvents != nil && *request.SendInitialEvents {
		return selected, nil
	}
	before := metav1.ListOptions{LabelSelector: request.LabelSelector, FieldSelector: request.FieldSelector}
	if !begins {
		before.ResourceVersion, before.ResourceVersionMatch = request.ResourceVersion, metav1.ResourceVersionMatchExact
	}
	items, answered, err := s.page(ctx, at, before, selection, nil)
	if err != nil {
		return nil, err
	}
	for i := range items {
		object := P(&items[i])
		selected.last[location{namespace: object.GetNamespace(), name: object.GetName()}] = object
	}
	request.ResourceVersion = answered.ResourceVersion
	return selected, nil
}

// pass returns the event that is to be sent for one that has come in, if any.
func (s *selectionFilter[T, P]) pass(event watch.Event) (watch.Event, bool) {
	object, ok := event.Object.(P)
	if !ok || event.Type == watch.Bookmark {
		return event, true
	}
	place := location{namespace: object.GetNamespace(), name: object.GetName()}
	before, shown := s.last[place]
	if event.Type == watch.Deleted {
		delete(s.last, place)
		return event, shown
	}
	switch matches := s.selection.matches(object); {
	case matches:
		// A copy, since the receiver of the event may change its object.
		s.last[place] = object.DeepCopyObject().(P)
		event.Type = watch.Modified
		if !shown {
			event.Type = watch.Added
		}
	case shown:
		delete(s.last, place)
		before.SetResourceVersion(object.GetResourceVersion())
		event = watch.Event{Type: watch.Deleted, Object: before}
	default:
		return event, false
	}
	return event, true
}
