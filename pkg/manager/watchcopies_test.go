// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// watchCopies makes the watches of a fake client report copies. Otherwise an object that was created between the list and the watch of an informer is
// reported as it is stored, and the informer's transformation of it races with every get.
func watchCopies(client *clienttesting.Fake, tracker clienttesting.ObjectTracker) {
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		stored, err := tracker.Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		w := &copyingWatch{stored: stored, copies: make(chan watch.Event), stopped: make(chan struct{})}
		go w.run()
		return true, w, nil
	})
}

// copyingWatch is a watch that reports copies. Unlike that of watch.Filter, its goroutine ends with it.
type copyingWatch struct {
	stored  watch.Interface
	copies  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func (w *copyingWatch) run() {
	defer close(w.copies)
	for event := range w.stored.ResultChan() {
		event.Object = event.Object.DeepCopyObject()
		select {
		case w.copies <- event:
		case <-w.stopped:
			return
		}
	}
}

// Stop implements watch.Interface.
func (w *copyingWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.stored.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *copyingWatch) ResultChan() <-chan watch.Event { return w.copies }
