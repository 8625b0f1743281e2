// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/registry/farm/farmpod/podwire"
)

// buffered is the number of events that may wait for a client. While some wait, the connection is not flushed.
const buffered = 32

// Watch implements rest.Watcher. The watch ends with its context, when it is stopped, and when that of the Pods ends.
func (r *REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	asked, err := podOptions(options)
	if err != nil {
		return nil, err
	}
	if err := r.allow(ctx, "watch", selectedPod(options)); err != nil {
		return nil, err
	}
	asked.Watch = true
	announceEnd(ctx, asked)
	started := ctx
	ctx, cancel := context.WithCancel(ctx)
	body, err := r.askWith(ctx, asked).Stream(ctx)
	if err != nil {
		cancel()
		return nil, explain(started, "watch", err)
	}
	v := &view{shown: make(chan watch.Event, buffered), cancel: cancel}
	go v.run(ctx, body)
	return v, nil
}

// announceEnd makes known to the API server when the watch will end: it sends a last bookmark before that.
func announceEnd(ctx context.Context, asked *metav1.ListOptions) {
	if deadline, ok := ctx.Deadline(); ok && asked.TimeoutSeconds == nil {
		asked.TimeoutSeconds = ptr.To(max(int64(time.Until(deadline)/time.Second), 1))
	}
}

// view is a watch of Pods that shows FarmPods.
type view struct {
	shown  chan watch.Event
	cancel context.CancelFunc
}

// ResultChan implements watch.Interface.
func (v *view) ResultChan() <-chan watch.Event { return v.shown }

// Stop implements watch.Interface.
func (v *view) Stop() { v.cancel() }

// run ends when no more Pods come: a client that watches on from where he was misses nothing, as with a watch of the API server itself.
func (v *view) run(ctx context.Context, body io.ReadCloser) {
	defer close(v.shown)
	defer body.Close()
	pods := podwire.NewEvents(body)
	for {
		event, err := pods.Next(show)
		if err != nil {
			if err != podwire.ErrEnd && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A watch of pods ends early, and with it that of farmpods")
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case v.shown <- event:
		}
	}
}

func show(event watch.EventType, pod *corev1.Pod) runtime.Object {
	if event == watch.Bookmark {
		return convertBookmark(pod)
	}
	return convert(pod)
}
