// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workload is a number of objects of one kind, and what happens to them in a run, whoever works on them.
type workload struct {
	resource schema.GroupVersionResource
	count    int
	// prepare makes what the objects need, before them. Optional.
	prepare func(ctx context.Context, p *population) error
	// create makes one of the objects.
	create func(ctx context.Context, p *population, name string) error
	// observe makes the observer watch all that the milestones speak of, and the events about the objects.
	observe func(ctx context.Context, p *population, o *observer) error
	// requests are those that whoever works on the objects sends, beside events, as the API server counts them. Others may
	// send no such requests.
	requests []string
	phases   []phase
	// flags of the operator beside the usual ones.
	flags []string
	// atOnce is how many objects the operator works on at the same time; 0 is the usual.
	atOnce int
}

// phase of a run. The first begins with the start of whoever does the work.
type phase struct {
	name string
	// title of its rows, with a place for the number of objects.
	title string
	// disturb prepares what makes work in this phase, and returns what does it; nil where there is work already.
	disturb func(ctx context.Context, p *population) (do func() error, err error)
	// milestones are reached one after the other, by all objects. The time until the first one is what counts.
	milestones []milestone
	// events are about each object, of this phase and of those before.
	events int
	// requestsGoal is how many requests each object may take, events included.
	requestsGoal int
}

// milestone is a mark that the observer must have given to things of a kind.
type milestone struct {
	kind, mark string
	// each is how many things there are for each object; 0 is one.
	each int
}
