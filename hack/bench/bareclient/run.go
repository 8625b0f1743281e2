// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// run is a phase under way.
type run struct {
	*Client
	left     atomic.Int64       // objects that still have steps
	finished chan struct{}      // closed when there are none
	events   chan *corev1.Event // to be posted one after the other; it has room for all
}

func (c *Client) newRun(phase *Phase) *run {
	r := &run{Client: c, finished: make(chan struct{}), events: make(chan *corev1.Event, phase.events)}
	r.left.Store(int64(len(c.objects)))
	return r
}

// run returns when all is done and all it started has ended, or with the first error.
func (r *run) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var workers, poster sync.WaitGroup
	poster.Go(func() { r.postEvents(ctx, fail) })
	for range r.workers {
		workers.Go(func() { r.work(ctx, fail) })
	}
	for _, o := range r.objects {
		r.queue <- o
	}
	select {
	case <-r.finished:
		close(r.events)
		poster.Wait()
	case err := <-r.lost:
		fail(err)
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	fail(nil)
	workers.Wait()
	poster.Wait()
	return err
}

func (r *run) work(ctx context.Context, fail context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-r.queue:
			if err := r.goOn(ctx, o); err != nil {
				fail(err)
				return
			}
		}
	}
}

// goOn does the steps of the object until one has to wait.
func (r *run) goOn(ctx context.Context, o *object) error {
	for !o.park() {
		if err := r.do(ctx, o, o.steps[0]); err != nil {
			return err
		}
		o.steps = o.steps[1:]
		if len(o.steps) == 0 {
			if r.left.Add(-1) == 0 {
				close(r.finished)
			}
			return nil
		}
	}
	return nil
}

// do sends the request of a step, made up to date.
func (r *run) do(ctx context.Context, o *object, s step) error {
	name := o.container.Name
	switch {
	case s.status != nil:
		o.container.Status = *s.status
		updated, err := r.containers.UpdateStatus(ctx, o.container, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("writing the status of ImmortalContainer %s/%s: %w", r.namespace, name, err)
		}
		updated.ManagedFields = nil
		o.container = updated
	case s.pod != nil:
		pod := s.pod
		pod.Namespace = r.namespace
		pod.OwnerReferences[0].UID = o.container.UID
		pod.Labels["controller-uid"] = string(o.container.UID)
		if _, err := r.pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Pod %s/%s: %w", r.namespace, pod.Name, err)
		}
	case s.event != nil:
		event := s.event
		event.Namespace, event.InvolvedObject.Namespace = r.namespace, r.namespace
		event.InvolvedObject.UID, event.InvolvedObject.ResourceVersion = o.container.UID, o.container.ResourceVersion
		r.events <- event
	case s.read:
		// What it reads is of no interest, nor whether there is one.
		_, _ = r.pods.Get(ctx, name+podSuffix, metav1.GetOptions{})
	}
	return nil
}

func (r *run) postEvents(ctx context.Context, fail context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, more := <-r.events:
			if !more {
				return
			}
			if _, err := r.Client.events.Create(ctx, event, metav1.CreateOptions{}); err != nil {
				fail(fmt.Errorf("posting event %s/%s: %w", event.Namespace, event.Name, err))
				return
			}
		}
	}
}
