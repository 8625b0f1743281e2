// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Fields of an event (metav1.WatchEvent) and of the object in it (runtime.RawExtension).
const (
	eventType   = 1
	eventObject = 2
	objectRaw   = 1
)

// mostBytes of an event, as for other clients.
const mostBytes = 16 << 20

// ErrEnd is the end of a watch, whether it was meant or not: a client cannot distinguish them, and watches again.
var ErrEnd = errors.New("the watch has ended")

// Events are those of a watch of Pods.
type Events struct {
	body io.Reader
	size [4]byte
}

// NewEvents reads the answer to a watch.
func NewEvents(body io.Reader) *Events { return &Events{body: body} }

// scratch is what an event takes to be read. An idle watch has none.
type scratch struct {
	bytes []byte
	pod   corev1.Pod
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// Next waits for an event. Its object is what show makes of the Pod, which is there only until show returns; that of an ERROR is a
// Status. The error is ErrEnd if nothing more came, and another one if what came could not be read.
func (e *Events) Next(show func(watch.EventType, *corev1.Pod) runtime.Object) (watch.Event, error) {
	if _, err := io.ReadFull(e.body, e.size[:]); err != nil {
		return watch.Event{}, ErrEnd
	}
	size := int(binary.BigEndian.Uint32(e.size[:]))
	if size > mostBytes {
		return watch.Event{}, fmt.Errorf("an event of a watch of Pods has %d bytes", size)
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if cap(s.bytes) < size {
		s.bytes = make([]byte, size)
	}
	s.bytes = s.bytes[:size]
	if _, err := io.ReadFull(e.body, s.bytes); err != nil {
		return watch.Event{}, ErrEnd
	}
	event, err := s.event(show)
	if err != nil {
		return event, wrong("an event of a watch of Pods", err)
	}
	return event, nil
}

func (s *scratch) event(show func(watch.EventType, *corev1.Pod) runtime.Object) (event watch.Event, err error) {
	var object []byte
	err = eachField(s.bytes, func(f field) error {
		switch f.number {
		case eventType:
			event.Type = typeOf(f.bytes)
		case eventObject:
			return eachField(f.bytes, func(f field) error {
				if f.number == objectRaw {
					object = f.bytes
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return event, err
	}
	kind, content, err := open(object)
	if err != nil {
		return event, err
	}
	switch {
	case kind == "Status" && event.Type == watch.Error:
		status := &metav1.Status{}
		event.Object = status
		return event, status.Unmarshal(content)
	case kind == "Pod" && event.Type != watch.Error && event.Type != "":
		reset(&s.pod)
		if err := readPod(&s.pod, content); err != nil {
			return event, err
		}
		event.Object = show(event.Type, &s.pod)
		return event, nil
	}
	return event, fmt.Errorf("it is of a %q", kind)
}

// typeOf is one of those that there are, or none.
func typeOf(text []byte) watch.EventType {
	for _, known := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(text) == string(known) {
			return known
		}
	}
	return ""
}
