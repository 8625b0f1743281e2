// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// ReasonResourceExists is the reason of the Warning event and of the Conflict condition where an object of the name we
// need exists and is not ours.
const ReasonResourceExists = "ErrResourceExists"

const (
	// eventBurst and eventRefill bound the events of one object from one component: so many at once, then one every so
	// often. The default (25, then one in five minutes) hides what a busy object says.
	eventBurst  = 100
	eventRefill = 10 * time.Second
	// maxSimilarEvents is how many distinct messages of one object and reason are kept apart within ten minutes, before
	// they are folded into one.
	maxSimilarEvents = 50

	// reasonFlush marks the event that Flush sends through the queue; it is never posted.
	reasonFlush = "Flush"
)

// Events posts the events of all controllers of a process, in the order in which they were recorded.
type Events struct {
	broadcaster record.EventBroadcaster
	sink        *flushableSink
}

// StartEvents posts events until the context ends.
func StartEvents(ctx context.Context, client kubernetes.Interface) *Events {
	events := &Events{
		broadcaster: record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
			BurstSize: eventBurst,
			QPS:       float32(1 / eventRefill.Seconds()),
			MaxEvents: maxSimilarEvents,
		})),
		sink: &flushableSink{
			EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)},
			waiting:   map[string]chan struct{}{},
		},
	}
	events.broadcaster.StartRecordingToSink(events.sink)
	return events
}

// Recorder of one component, which is named as the source of its events. The scheme must know the kinds that the events
// are about.
func (e *Events) Recorder(scheme *runtime.Scheme, component string) record.EventRecorder {
	return e.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
}

// Flush waits until all events recorded before were posted, or the context ends.
func (e *Events) Flush(ctx context.Context) error {
	name, flushed := e.sink.expect()
	scheme := runtime.NewScheme()
	e.Recorder(scheme, "flush").Event(&corev1.ObjectReference{Kind: "Flush", Name: name, Namespace: "flush"}, corev1.EventTypeNormal, reasonFlush, "")
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return errors.New("some events were not posted: " + context.Cause(ctx).Error())
	}
}

// flushableSink posts events one after the other. When an event of Flush gets to it, all before it are done.
type flushableSink struct {
	record.EventSink

	mu      sync.Mutex
	count   int
	waiting map[string]chan struct{}
}

func (s *flushableSink) expect() (name string, flushed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	name = fmt.Sprint(s.count)
	c := make(chan struct{})
	s.waiting[name] = c
	return name, c
}

// Create implements record.EventSink.
func (s *flushableSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason != reasonFlush || event.Source.Component != "flush" {
		return s.EventSink.Create(event)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.waiting[event.InvolvedObject.Name]; ok {
		close(c)
		delete(s.waiting, event.InvolvedObject.Name)
	}
	return event, nil
}
