// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hangTime is how long the API server answers nothing. It is shorter than the renew deadline, after which a leader ends.
const hangTime = 5 * time.Second

var leadership = scenario{
	name: "leadership", about: "time from the end of a leader, or of a hang of the API server, until new ImmortalContainers have Pods",
	size: 100, quickSize: 20, podsPerObject: 1,
	measure: measureLeadership,
}

// replicas are a leader and its standby.
type replicas struct {
	*turn
	*namespace
	leader, standby *operator
	created         int
}

func measureLeadership(ctx context.Context, t *turn) (err error) {
	r := &replicas{turn: t}
	if r.namespace, err = t.newNamespace(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if r.leader, err = t.startOperator(ctx, t.kubeconfig(), nil); err != nil {
		return err
	}
	if _, err := r.handle(ctx, 1); err != nil { // it leads
		return err
	}
	if err := r.startStandby(ctx); err != nil {
		return err
	}
	for _, end := range []struct {
		name string
		goal time.Duration
		end  func(*process) error
	}{
		{"a leader is stopped, until the next one has created a Pod", time.Second, (*process).stop},
		// The Lease lasts 15 s, and the standby looks at it every two.
		{"a leader is killed, until the next one has created a Pod", 17 * time.Second, (*process).kill},
	} {
		begin := time.Now()
		if err := end.end(r.leader.process); err != nil {
			return err
		}
		r.leader, r.standby = r.standby, nil
		handled, err := r.handle(ctx, 1)
		if err != nil {
			return err
		}
		t.add(row{Name: end.name, Unit: seconds, Goal: end.goal.Seconds()}, handled.Sub(begin).Seconds(), "")
		if err := r.startStandby(ctx); err != nil {
			return err
		}
	}
	if err := r.hang(ctx); err != nil {
		return err
	}
	return r.namespace.remove(ctx)
}

func (r *replicas) stop() (err error) {
	for _, o := range []*operator{r.leader, r.standby} {
		if o != nil {
			err = errors.Join(err, o.stop())
		}
	}
	return err
}

// startStandby returns when the standby is ready.
func (r *replicas) startStandby(ctx context.Context) (err error) {
	if r.standby, err = r.startOperator(ctx, r.kubeconfig(), nil); err != nil {
		return err
	}
	return poll(ctx, "the standby to be ready", func() bool { _, err := r.standby.get(ctx, "/readyz"); return err == nil })
}

// handle creates that number of ImmortalContainers, and returns when the operator has created the Pods of all.
func (r *replicas) handle(ctx context.Context, number int) (handled time.Time, err error) {
	if err := r.create(ctx, number); err != nil {
		return time.Time{}, err
	}
	return r.awaitPods(ctx)
}

func (r *replicas) create(ctx context.Context, number int) error {
	first := r.created
	r.created += number
	return inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		return createContainer(ctx, r.namespace, fmt.Sprintf("container-%04d", first+i))
	})
}

func (r *replicas) awaitPods(ctx context.Context) (handled time.Time, err error) {
	var last error
	err = poll(ctx, fmt.Sprintf("%d Pods", r.created), func() bool {
		pods, err := r.kubeClient.CoreV1().Pods(r.namespace.name).List(ctx, metav1.ListOptions{})
		handled, last = time.Now(), err
		return err == nil && len(pods.Items) == r.created
	})
	if err != nil {
		return time.Time{}, errors.Join(err, last)
	}
	return handled, nil
}

// hang stops the control plane in the middle of the operator's work for hangTime.
func (r *replicas) hang(ctx context.Context) error {
	if err := r.create(ctx, r.size); err != nil {
		return err
	}
	if err := r.cluster.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := errors.Join(sleep(ctx, hangTime), r.cluster.signal(syscall.SIGCONT))
	if err != nil {
		return err
	}
	back := time.Now()
	handled, err := r.awaitPods(ctx)
	if err != nil {
		return err
	}
	r.add(row{Name: fmt.Sprintf("the API server hangs for %v, until %d ImmortalContainers have Pods", hangTime, r.size), Unit: seconds, Goal: 10},
		handled.Sub(back).Seconds(), "")
	return nil
}
