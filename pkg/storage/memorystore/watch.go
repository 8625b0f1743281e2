// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// bookmarkInterval is that of kube-apiserver.
const bookmarkInterval = time.Minute

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	key, err := storage.PrepareKey(s.prefix, key, options.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := s.versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{store: s, key: key, options: options, ctx: ctx, cancel: cancel, events: make(chan watch.Event)}
	initial := from == 0 && options.SendInitialEvents == nil || options.SendInitialEvents != nil && *options.SendInitialEvents
	// The position is fixed before Watch returns: later writes are sent.
	start := func() error { return w.follow(from) }
	switch {
	case initial:
		entries, current, err := s.at(0)
		if err == nil {
			err = s.notOlder(options.ResourceVersion, current)
		}
		start = func() error {
			if err != nil {
				return err
			}
			return w.begin(entries, current)
		}
	case from == 0:
		_, from = s.current(key)
	}
	go w.run(start)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// watcher reads the history. One that does not keep up gets the error 410.
type watcher struct {
	store   *store
	key     string
	options storage.ListOptions
	ctx     context.Context
	cancel  context.CancelFunc
	events  chan watch.Event
}

// ResultChan implements watch.Interface. The channel is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

func (w *watcher) run(start func() error) {
	defer close(w.events)
	defer w.cancel()
	if err := start(); err != nil && w.ctx.Err() == nil {
		status := apierrors.NewInternalError(err).Status()
		if known, ok := err.(apierrors.APIStatus); ok {
			status = known.Status()
		}
		w.send(watch.Error, &status)
	}
}

// begin sends the initial events, and continues from there.
func (w *watcher) begin(entries map[string]*entry, resourceVersion uint64) error {
	for _, key := range sortedKeys(entries, w.key, w.options.Recursive) {
		entry := entries[key]
		if matches(w.options.Predicate, entry) && !w.send(watch.Added, entry.object.DeepCopyObject()) {
			return nil
		}
	}
	if w.options.SendInitialEvents != nil && w.options.Predicate.AllowWatchBookmarks {
		if err := w.bookmark(resourceVersion, storage.AnnotateInitialEventsEndBookmark); err != nil {
			return err
		}
	}
	return w.follow(resourceVersion)
}

// follow sends the writes after a resourceVersion, until the watch is stopped.
func (w *watcher) follow(resourceVersion uint64) error {
	var bookmarks <-chan time.Time
	if w.options.Predicate.AllowWatchBookmarks || w.options.ProgressNotify {
		ticker := time.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		bookmarks = ticker.C
	}
	for w.ctx.Err() == nil {
		writes, next, err := w.store.since(resourceVersion)
		if err != nil {
			return err
		}
		for _, write := range writes {
			if err := w.sendWrite(write); err != nil {
				return err
			}
			resourceVersion = write.resourceVersion
		}
		if len(writes) != 0 {
			continue
		}
		select {
		case <-next:
		case <-bookmarks:
			if err := w.bookmark(resourceVersion, nil); err != nil {
				return err
			}
		case <-w.ctx.Done():
		}
	}
	return nil
}

// sendWrite sends the event of a write, if it has one for this watch: what is selected from now on is ADDED, and what is not any more DELETED.
func (w *watcher) sendWrite(write change) error {
	if !within(write.key, w.key, w.options.Recursive) {
		return nil
	}
	before, after := matches(w.options.Predicate, write.before), matches(w.options.Predicate, write.after)
	switch {
	case after && before:
		w.send(watch.Modified, write.after.object.DeepCopyObject())
	case after:
		w.send(watch.Added, write.after.object.DeepCopyObject())
	case before:
		last := write.before.object.DeepCopyObject()
		if err := w.store.versioner.UpdateObject(last, write.resourceVersion); err != nil {
			return err
		}
		w.send(watch.Deleted, last)
	}
	return nil
}

// bookmark sends the resourceVersion that the watch has reached.
func (w *watcher) bookmark(resourceVersion uint64, annotate func(runtime.Object) error) error {
	object := w.store.newObject()
	if err := w.store.versioner.UpdateObject(object, resourceVersion); err != nil {
		return err
	}
	if annotate != nil {
		if err := annotate(object); err != nil {
			return err
		}
	}
	w.send(watch.Bookmark, object)
	return nil
}

// send waits until the event is taken, and reports whether it was.
func (w *watcher) send(kind watch.EventType, object runtime.Object) bool {
	select {
	case w.events <- watch.Event{Type: kind, Object: object}:
		return true
	case <-w.ctx.Done():
		return false
	}
}
