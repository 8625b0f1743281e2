// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// ReasonResourceExists is the reason of the Warning event and of the Conflict condition if an object with the name that we need exists
// and is not ours.
const ReasonResourceExists = "ErrResourceExists"

const (
	// eventBurst and eventRefill limit the events of one object from one component: a burst of this size, then one per eventRefill. The
	// default (25, then one in five minutes) hides events of a busy object. An ActionSet of two hundred actions with a phase each has 601.
	eventBurst  = 1000
	eventRefill = 10 * time.Second
	// maxSimilarEvents is how many distinct messages of one object and reason are posted within ten minutes, before they are aggregated
	// into one.
	maxSimilarEvents = 500

	// eventLanes is how many events may be posted concurrently. Each lane queues about two thousand.
	eventLanes = 16

	// reasonFlush and componentFlush mark the events that Flush sends through the queues; they are never posted.
	reasonFlush    = "Flush"
	componentFlush = "flush"
)

// Annotations of an event on its way to the API server. The event that is posted does not have them.
const (
	annotationEventName = "millwright.dev/event-name"
	annotationLastEvent = "millwright.dev/last-event"
)

// NamedEvent returns annotations for AnnotatedEventf of an event that several processes may record, and that is posted once: its name ends
// with the given time, in nanoseconds since 1970 as a hexadecimal number, instead of the time at which it is recorded. The last event of an
// object is posted even if the object has had more events than are allowed.
func NamedEvent(nanoseconds string, last bool) map[string]string {
	annotations := map[string]string{annotationEventName: nanoseconds}
	if last {
		annotations[annotationLastEvent] = "true"
	}
	return annotations
}

// named returns the event as it is posted, and whether its name was given by NamedEvent.
func named(event *corev1.Event) (posted *corev1.Event, given bool) {
	nanoseconds, given := event.Annotations[annotationEventName]
	if !given {
		return event, false
	}
	// The name of an object may be as long as that of an event.
	object := strings.TrimRight(Truncate(event.InvolvedObject.Name, validation.DNS1123SubdomainMaxLength-1-len(nanoseconds)), ".-")
	posted = event.DeepCopy()
	posted.Name = object + "." + nanoseconds
	delete(posted.Annotations, annotationEventName)
	delete(posted.Annotations, annotationLastEvent)
	return posted, true
}

// spamKey returns the key of client-go, by which the events of an object from one source are counted; the last events are counted separately.
func spamKey(event *corev1.Event) string {
	key := strings.Join([]string{
		event.Source.Component, event.Source.Host, event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name,
		string(event.InvolvedObject.UID), event.InvolvedObject.APIVersion, event.Type,
	}, "")
	if event.Annotations[annotationLastEvent] != "" {
		key += " last"
	}
	return key
}

// similarKey returns the key of client-go, by which similar events are counted, with a hash of the message: it is kept of maxSimilarEvents messages of each
// object and reason.
func similarKey(event *corev1.Event) (key, message string) {
	key, message = record.EventAggregatorByReasonFunc(event)
	hash := fnv.New64a()
	hash.Write([]byte(message))
	return key, string(hash.Sum(nil))
}

// Events posts the events of all controllers of a process, those of one object in the order in which they were recorded.
//
// A broadcaster of client-go posts one event after the other and drops events when its queue of about two thousand is full: a thousand
// objects that change at the same time have more events than that. So there are several broadcasters, and each object always uses the same.
//
// Their number is from a burst of 5,000 events of 1,000 objects, with a server that takes 2 ms for each: one broadcaster drops 3,993 events, four
// drop 960, eight and more none; sixteen leave room for a slower server. They cost 48 goroutines and 1.1 MiB. The broadcaster of
// client-go/tools/events posts 1,925 of them, with up to 367 requests concurrently and in no order: it takes all events of one object and
// reason for a series, whatever their messages are.
type Events struct {
	lanes []lane
}

// lane posts the events of some of the objects.
type lane struct {
	broadcaster record.EventBroadcaster
	sink        *flushableSink
}

// StartEvents posts events until the context ends.
func StartEvents(ctx context.Context, client kubernetes.Interface) *Events {
	ctx = withoutMessages(ctx)
	events := &Events{lanes: make([]lane, eventLanes)}
	for i := range events.lanes {
		events.lanes[i] = lane{
			broadcaster: record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
				BurstSize: eventBurst,
				QPS:       float32(1 / eventRefill.Seconds()),
				MaxEvents: maxSimilarEvents,

				KeyFunc:     similarKey,
				SpamKeyFunc: spamKey,
			})),
			sink: &flushableSink{
				EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)},
				waiting:   map[string]chan struct{}{},
			},
		}
		events.lanes[i].broadcaster.StartRecordingToSink(events.lanes[i].sink)
	}
	return events
}

// Recorder of one component, which is named as the source of its events. The scheme must know the kinds that the events
// are about.
func (e *Events) Recorder(scheme *runtime.Scheme, component string) record.EventRecorder {
	recorders := make(laneRecorder, len(e.lanes))
	for i, l := range e.lanes {
		recorders[i] = l.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
	}
	return recorders
}

// Flush waits until all events recorded before were posted, or the context ends.
func (e *Events) Flush(ctx context.Context) error {
	var lanes []<-chan struct{}
	for _, l := range e.lanes {
		lanes = append(lanes, l.flush())
	}
	for _, flushed := range lanes {
		select {
		case <-flushed:
		case <-ctx.Done():
			return errors.New("some events were not posted: " + context.Cause(ctx).Error())
		}
	}
	return nil
}

// flush sends an event of Flush through the queue. The channel is closed when all events before it are done.
func (l lane) flush() <-chan struct{} {
	name, flushed := l.sink.expect()
	recorder := l.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: componentFlush})
	recorder.Event(&corev1.ObjectReference{Kind: "Flush", Name: name, Namespace: "flush"}, corev1.EventTypeNormal, reasonFlush, "")
	return flushed
}

// laneRecorder records each event in the lane of its object.
type laneRecorder []record.EventRecorder

func (r laneRecorder) of(object runtime.Object) record.EventRecorder {
	hash := fnv.New32a()
	if accessor, err := meta.Accessor(object); err == nil {
		fmt.Fprintf(hash, "%s/%s", accessor.GetNamespace(), accessor.GetName())
	}
	return r[hash.Sum32()%uint32(len(r))]
}

// Event implements record.EventRecorder.
func (r laneRecorder) Event(object runtime.Object, eventType, reason, message string) {
	r.of(object).Event(object, eventType, reason, WithoutPorts(message))
}

// Eventf implements record.EventRecorder.
func (r laneRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r laneRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	r.of(object).AnnotatedEventf(object, annotations, eventType, reason, "%s", WithoutPorts(fmt.Sprintf(format, args...)))
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
	if event.Reason != reasonFlush || event.Source.Component != componentFlush {
		posted, given := named(event)
		created, err := s.EventSink.Create(posted)
		if given && apierrors.IsAlreadyExists(err) {
			return posted, nil
		}
		return created, retriable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.waiting[event.InvolvedObject.Name]; ok {
		close(c)
		delete(s.waiting, event.InvolvedObject.Name)
	}
	return event, nil
}

// Patch implements record.EventSink.
func (s *flushableSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	patched, err := s.EventSink.Patch(event, data)
	return patched, retriable(err)
}

// retriable makes the broadcaster retry after errors of the API server: by default it drops an event after any answer.
func retriable(err error) error {
	if err != nil && isOutage(err) {
		return fmt.Errorf("posting an event: %w", err)
	}
	return err
}
