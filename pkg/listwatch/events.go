// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/jsonscan"
)

// events decodes the events of a watch. An API server writes each of them as one line of JSON with a type and an object.
type events struct {
	resource *Resource
	body     io.ReadCloser
	lines    *bufio.Reader
}

func newEvents(resource *Resource, body io.ReadCloser) *events {
	return &events{resource: resource, body: body, lines: bufio.NewReader(body)}
}

// Close implements watch.Decoder. It makes Decode return.
func (e *events) Close() { _ = e.body.Close() }

// Decode implements watch.Decoder. An object that cannot be decoded is one that was deleted.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	line, err := e.lines.ReadBytes('\n')
	if err != nil && (err != io.EOF || len(line) == 0) {
		return "", nil, err // as it is: watch.StreamWatcher compares it
	}
	if err == io.EOF && !json.Valid(line) {
		return "", nil, io.ErrUnexpectedEOF
	}
	var event watch.EventType
	var text []byte
	err = jsonscan.EachMember(line, func(key, value []byte) error {
		switch string(key) {
		case `"type"`:
			return json.Unmarshal(value, &event)
		case `"object"`:
			text = value
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("reading an event of a watch: %w", err)
	}
	switch event {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
	default:
		return "", nil, fmt.Errorf("an event of a watch has the type %q", event)
	}
	object, failed, err := decodeObject(text)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("decoding the object of an event of a watch: %w", err)
	case failed == nil:
		return event, object, nil
	case event == watch.Bookmark, event == watch.Error:
		return "", nil, fmt.Errorf("decoding the object of an event of a watch: %w", failed)
	case event != watch.Deleted:
		e.resource.Report(object, failed)
	}
	return watch.Deleted, e.resource.lastState(object), nil
}

// lastState returns an object as the informer has it, with the resourceVersion of the given one, or that one: handlers of events need what the object
// was, and the informer reads from where the watch has come to. An event that the informer has yet to process is not in it.
func (r *Resource) lastState(object runtime.Object) runtime.Object {
	metadata, ok := object.(metav1.Object)
	if !ok || r.Known == nil {
		return object
	}
	known := r.Known(cache.MetaObjectToName(metadata))
	if known == nil {
		return object
	}
	known = known.DeepCopyObject()
	if last, ok := known.(metav1.Object); ok && last.GetUID() == metadata.GetUID() {
		last.SetResourceVersion(metadata.GetResourceVersion())
		return known
	}
	return object
}
