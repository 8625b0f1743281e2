// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// shown is how much of the history lists and watches of a resource show.
func (s *Server) shown(resource schema.GroupVersionResource) int {
	if limit, ok := s.frozen[resource]; ok {
		return limit
	}
	return len(s.history)
}

// at returns the objects of a resource, by namespace and name, and the resourceVersion at a point of the history.
func (s *Server) at(resource schema.GroupVersionResource, point int) (objects []*unstructured.Unstructured, version int64) {
	present := map[objectKey]*unstructured.Unstructured{}
	version = firstVersion
	for _, change := range s.history[:point] {
		version = change.Version
		if change.Resource != resource {
			continue
		}
		key := objectKey{resource, change.Object.GetNamespace(), change.Object.GetName()}
		if present[key] = change.Object; change.Deleted {
			delete(present, key)
		}
	}
	for _, object := range present {
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"\x00"+a.GetName(), b.GetNamespace()+"\x00"+b.GetName())
	})
	return objects, version
}

// selection is what a list or a watch selects.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (r *Request) selection() (selection, error) {
	byLabel, err := labels.Parse(r.Query.Get("labelSelector"))
	if err != nil {
		return selection{}, err
	}
	byField, err := fields.ParseSelector(r.Query.Get("fieldSelector"))
	return selection{r.Namespace, byLabel, byField}, err
}

func (s selection) matches(object *unstructured.Unstructured) bool {
	if object == nil || s.namespace != "" && s.namespace != object.GetNamespace() || !s.labels.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	values := fields.Set{}
	for _, requirement := range s.fields.Requirements() {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(requirement.Field, ".")...)
		if value != nil {
			values[requirement.Field] = fmt.Sprint(value)
		}
	}
	return s.fields.Matches(values)
}

func (s *Server) list(r *Request, resource *Resource) (*http.Response, error) {
	selected, err := r.selection()
	if err != nil {
		return r.fail(apierrors.NewBadRequest(err.Error()))
	}
	objects, version := s.at(r.Resource, s.shown(r.Resource))
	objects = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !selected.matches(object) })
	metadata := map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}
	start, _ := strconv.Atoi(r.Query.Get("continue"))
	objects = objects[min(start, len(objects)):]
	if limit, _ := strconv.Atoi(r.Query.Get("limit")); limit > 0 && limit < len(objects) {
		metadata["continue"] = strconv.Itoa(start + limit)
		objects = objects[:limit]
	}
	list := map[string]any{"apiVersion": r.Resource.GroupVersion().String(), "kind": resource.kind() + "List", "metadata": metadata}
	items := make([]any, len(objects))
	for i, object := range objects {
		items[i] = object.Object
		if r.metadataOnly {
			items[i] = metadataOf(object).Object
			list["apiVersion"], list["kind"] = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
		}
	}
	list["items"] = items
	return r.respond(http.StatusOK, list)
}

// watch answers with a stream of what is selected, until the client closes it.
func (s *Server) watch(r *Request, resource *Resource) (*http.Response, error) {
	selected, err := r.selection()
	if err != nil {
		return r.fail(apierrors.NewBadRequest(err.Error()))
	}
	s.watches = append(s.watches, strings.Join([]string{r.Resource.Resource, r.Namespace, r.Query.Get("labelSelector") + r.Query.Get("fieldSelector")}, " "))
	reader, writer := io.Pipe()
	w := &watcher{s: s, r: r, selected: selected, encoder: json.NewEncoder(writer), next: s.shown(r.Resource), closed: make(chan struct{})}
	after, _ := strconv.ParseInt(r.Query.Get("resourceVersion"), 10, 64)
	initial := r.Query.Get("sendInitialEvents") == "true"
	if after == 0 || initial {
		objects, version := s.at(r.Resource, w.next)
		w.initial = objects
		if initial {
			w.bookmark = resource.empty()
			w.bookmark.SetResourceVersion(strconv.FormatInt(version, 10))
			w.bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	} else {
		w.next = slices.IndexFunc(s.history, func(c Change) bool { return c.Version > after })
		if w.next < 0 {
			w.next = len(s.history)
		}
	}
	go func() { _ = writer.CloseWithError(w.run()) }()
	return response(r.http, http.StatusOK, "application/json", &stream{reader, w.closed, sync.Once{}}), nil
}

// stream is the body of a watch.
type stream struct {
	*io.PipeReader
	closed chan struct{}
	once   sync.Once
}

func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.PipeReader.Close()
}

type watcher struct {
	s        *Server
	r        *Request
	selected selection
	encoder  *json.Encoder
	initial  []*unstructured.Unstructured
	bookmark *unstructured.Unstructured
	next     int
	closed   chan struct{}
}

func (w *watcher) run() error {
	for _, object := range w.initial {
		if err := w.send(watch.Added, object); w.selected.matches(object) && err != nil {
			return err
		}
	}
	if w.bookmark != nil {
		if err := w.encode(watch.Bookmark, w.bookmark); err != nil {
			return err
		}
	}
	for {
		change, wait := w.take()
		if change != nil {
			if err := w.show(change); err != nil {
				return err
			}
			continue
		}
		select {
		case <-wait:
		case <-w.closed:
			return io.EOF
		case <-w.r.http.Context().Done():
			return w.r.http.Context().Err()
		}
	}
}

// take returns the next change of the resource, or what to wait for.
func (w *watcher) take() (*Change, <-chan struct{}) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for limit := w.s.shown(w.r.Resource); w.next < limit; {
		w.next++
		if change := &w.s.history[w.next-1]; change.Resource == w.r.Resource {
			return change, nil
		}
	}
	return nil, w.s.changed
}

// show a change as it looks through the selection.
func (w *watcher) show(change *Change) error {
	before, now := w.selected.matches(change.Before), w.selected.matches(change.Object)
	switch {
	case change.Deleted && (before || now):
		return w.encode(watch.Deleted, change.Object)
	case before && !now:
		last := change.Before.DeepCopy() // as kube-apiserver: the last state that was selected, in the new version
		last.SetResourceVersion(change.Object.GetResourceVersion())
		return w.encode(watch.Deleted, last)
	case before:
		return w.encode(watch.Modified, change.Object)
	case now && !change.Deleted:
		return w.encode(watch.Added, change.Object)
	}
	return nil
}

func (w *watcher) send(event watch.EventType, object *unstructured.Unstructured) error {
	if !w.selected.matches(object) {
		return nil
	}
	return w.encode(event, object)
}

func (w *watcher) encode(event watch.EventType, object *unstructured.Unstructured) error {
	if w.r.metadataOnly {
		object = metadataOf(object)
	}
	return w.encoder.Encode(map[string]any{"type": event, "object": object.Object})
}
