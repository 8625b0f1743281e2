// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/hack/bench/traffic"
)

// eventLanes is how many events the operator posts at the same time, those of one object one after the other.
const eventLanes = 16

// run is a phase under way.
type run struct {
	*Client
	left     atomic.Int64  // objects that still have steps
	finished chan struct{} // closed when there are none
	events   []chan event  // of each lane, with room for all
}

// event is one to be posted.
type event struct {
	object  *object
	request *request
}

func (c *Client) newRun() *run {
	r := &run{Client: c, finished: make(chan struct{})}
	r.left.Store(int64(len(c.objects)))
	events := 0
	for _, o := range c.objects {
		for _, s := range o.steps {
			events += len(s.events)
		}
	}
	for range eventLanes {
		r.events = append(r.events, make(chan event, events))
	}
	return r
}

// run returns when all is done and all it started has ended, or with the first error.
func (r *run) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var workers, posters sync.WaitGroup
	for _, lane := range r.events {
		posters.Go(func() { r.postEvents(ctx, fail, lane) })
	}
	for range r.workers {
		workers.Go(func() { r.work(ctx, fail) })
	}
	for _, o := range r.objects {
		r.queue <- o
	}
	select {
	case <-r.finished:
		for _, lane := range r.events {
			close(lane)
		}
		posters.Wait()
	case err := <-r.lost:
		fail(err)
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	fail(nil)
	workers.Wait()
	posters.Wait()
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

// do sends the requests of a step at once, and leaves its events to be posted.
func (r *run) do(ctx context.Context, o *object, s step) error {
	errs := make([]error, len(s.requests))
	var others sync.WaitGroup
	for i := 1; i < len(s.requests); i++ {
		others.Go(func() { errs[i] = r.send(ctx, o, s.requests[i]) })
	}
	if len(s.requests) > 0 {
		errs[0] = r.send(ctx, o, s.requests[0])
	}
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	hash := fnv.New32a()
	hash.Write([]byte(o.name))
	lane := r.events[hash.Sum32()%eventLanes]
	for _, request := range s.events {
		lane <- event{o, request}
	}
	return nil
}

// send the request, made up to date.
func (r *run) send(ctx context.Context, o *object, request *request) error {
	sent := r.rest.Verb(request.Method).RequestURI(string(o.fill(request.uri))).SetHeader("Accept", request.Accept)
	if len(request.Body) > 0 {
		sent = sent.SetHeader("Content-Type", request.ContentType).Body(o.fill(request.body))
	}
	result := sent.Do(ctx)
	err := result.Error() // which has read what the API server says, as Raw has not
	switch {
	case request.Method == http.MethodGet && apierrors.IsNotFound(err):
		return nil // what it reads is of no interest, nor whether there is one
	case err != nil:
		return fmt.Errorf("replaying %s for %s %s/%s: %w", request.Kind(), r.resource, r.namespace, o.name, err)
	case !request.answerCounts:
		return nil
	}
	answer, _ := result.Raw()
	now, err := traffic.IdentityOf(answer)
	if err != nil {
		return fmt.Errorf("reading the answer to %s for %s %s/%s: %w", request.Kind(), r.resource, r.namespace, o.name, err)
	}
	o.stands(request.Answer, now)
	return nil
}

func (r *run) postEvents(ctx context.Context, fail context.CancelCauseFunc, lane <-chan event) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, more := <-lane:
			if !more {
				return
			}
			if err := r.send(ctx, event.object, event.request); err != nil {
				fail(err)
				return
			}
		}
	}
}
