// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"io"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/utils/ptr"
)

// eventBuffer is the number of events that may wait in a watch, which saves switching between goroutines. What a slow client does not take
// waits in the connection, and then in the API server of the records, which ends watches that are too slow.
const eventBuffer = 16

// watchBuffer is small: it grows to what events need, and most watches wait for their first one.
const watchBuffer = 512

// Watch implements storage.Interface.
func (s *store[T, P]) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	at, err := s.several(key, options.Recursive)
	if err != nil {
		return nil, err
	}
	selection := split(options.Predicate)
	request := watchRequest(ctx, &selection, options)
	var selected *selectionFilter[T, P]
	if !selection.here.Empty() {
		if selected, err = s.selecting(ctx, at, &selection, &request); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	body, err := s.records.list(ctx, at, request)
	if err != nil {
		cancel()
		return nil, s.explain(err, at)
	}
	w := &watcher[T, P]{store: s, at: at, ctx: ctx, cancel: cancel, selected: selected, events: make(chan watch.Event, eventBuffer)}
	go w.run(body)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// watchRequest is what the API server of the records is asked for.
func watchRequest(ctx context.Context, selection *selection, options storage.ListOptions) metav1.ListOptions {
	request := metav1.ListOptions{
		Watch:               true,
		LabelSelector:       selection.labels,
		FieldSelector:       selection.fields,
		ResourceVersion:     options.ResourceVersion,
		AllowWatchBookmarks: options.Predicate.AllowWatchBookmarks || options.ProgressNotify,
		SendInitialEvents:   options.SendInitialEvents,
	}
	if options.SendInitialEvents != nil {
		request.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan // the only one that there is for it
	}
	if deadline, found := ctx.Deadline(); found {
		// It would end the watch at a time of its own otherwise, which may be sooner.
		request.TimeoutSeconds = ptr.To(int64(math.Ceil(time.Until(deadline).Seconds())))
	}
	return request
}

// watcher is a watch of objects by a watch of their records.
type watcher[T any, P object[T]] struct {
	store    *store[T, P]
	at       location
	ctx      context.Context
	cancel   context.CancelFunc
	selected *selectionFilter[T, P] // nil where nothing has to be selected here
	events   chan watch.Event
}

// ResultChan implements watch.Interface. The channel is closed when the watch has ended.
func (w *watcher[T, P]) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher[T, P]) Stop() { w.cancel() }

// run hands on what comes in, until the API server ends the watch or the connection breaks, which look the same to a client and are
// repaired by watching again from the last resourceVersion; until an error; or until the watch is stopped.
func (w *watcher[T, P]) run(body io.ReadCloser) {
	defer close(w.events)
	defer w.cancel()
	defer body.Close()
	stream := newStream(body, watchBuffer)
	for {
		text, err := stream.value()
		if err != nil && stream.err != nil {
			return
		}
		event, wanted := w.store.event(w.at, text)
		if wanted && w.selected != nil {
			event, wanted = w.selected.pass(event)
		}
		if !wanted {
			continue
		}
		select {
		case w.events <- event:
		case <-w.ctx.Done():
			return
		}
		if event.Type == watch.Error {
			return
		}
	}
}
