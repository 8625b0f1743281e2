// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/report"
)

const (
	// requestsInTurn are sent one by one before it is the other's turn, and turnsPerRepetition is how many turns each has.
	requestsInTurn, turnsPerRepetition = 50, 4
)

// duel is a request of ours and the one that it is compared with, in turn. They are seconds for one request: the
// median of each turn, since something else may hold up a few.
type duel struct{ took, theirTook []float64 }

// farmOutcome is what was measured of Llamas and FarmPods.
type farmOutcome struct {
	podLists      []*listContest
	llamaList     *listContest
	creates, gets duel
}

func middle(samples []float64) float64 { return report.Median(samples) }

// measureFarm measures requests for FarmPods and Llamas beside those for what they are made of.
func (b *bench) measureFarm(ctx context.Context) error {
	b.say("Making %d Pods", b.farmObjects)
	pods, err := b.newPopulation(ctx, b.farmObjects)
	if err != nil {
		return err
	}
	if err := pods.createFarmPods(ctx); err != nil {
		return err
	}
	var llamas, records *population
	err = b.withFarm(ctx, func(ctx context.Context, _ *farm) (err error) {
		b.measured.farm.podLists = podLists(pods.namespace)
		if err := b.holdLists(ctx, b.measured.farm.podLists...); err != nil {
			return err
		}
		if llamas, err = b.newPopulation(ctx, b.farmObjects); err != nil {
			return err
		}
		if records, err = b.newPopulation(ctx, b.farmObjects); err != nil {
			return err
		}
		if err := b.holdRequests(ctx, llamas, records); err != nil {
			return err
		}
		return b.measureLlamaList(ctx, llamas, records)
	})
	if err != nil {
		return err
	}
	for _, p := range []*population{pods, llamas, records} {
		if err := p.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// holdRequests lets one Llama after the other be created and read, and one record after the other.
func (b *bench) holdRequests(ctx context.Context, llamas, records *population) error {
	if err := llamas.createLlama(ctx, "first"); err != nil {
		return err
	}
	contents, err := llamas.contents(ctx, "first")
	if err != nil {
		return err
	}
	m := &b.measured.farm
	for turn := range b.repetitions * turnsPerRepetition {
		name := func(i int) string { return fmt.Sprintf("turn-%d-%d", turn, i) }
		for _, step := range []struct {
			took *[]float64
			do   func(name string) error
		}{
			{&m.creates.took, func(name string) error { return llamas.createLlama(ctx, name) }},
			{&m.creates.theirTook, func(name string) error { return records.createRecord(ctx, name, contents) }},
			{&m.gets.took, func(name string) error {
				_, err := b.client.FarmV1alpha().Llamas(llamas.namespace).Get(ctx, name, metav1.GetOptions{})
				return err
			}},
			{&m.gets.theirTook, func(name string) error {
				_, err := b.client.FarmStorageV1().LlamaRecords(records.namespace).Get(ctx, name, metav1.GetOptions{})
				return err
			}},
		} {
			var all []float64
			for i := range requestsInTurn {
				seconds, err := timed(func() error { return step.do(name(i)) })
				if err != nil {
					return err
				}
				all = append(all, seconds)
			}
			*step.took = append(*step.took, middle(all))
		}
	}
	b.say("Llama, LlamaRecord: create %.2f ms, %.2f ms; get %.2f ms, %.2f ms", milli*middle(m.creates.took), milli*middle(m.creates.theirTook), milli*middle(m.gets.took), milli*middle(m.gets.theirTook))
	return nil
}

func (b *bench) measureLlamaList(ctx context.Context, llamas, records *population) error {
	contents, err := llamas.contents(ctx, "first")
	if err != nil {
		return err
	}
	there := b.repetitions * turnsPerRepetition * requestsInTurn
	err = inParallel(ctx, max(0, b.farmObjects-there), func(ctx context.Context, i int) error {
		if err := llamas.createLlama(ctx, objectName(i)); err != nil {
			return err
		}
		return records.createRecord(ctx, objectName(i), contents)
	})
	if err != nil {
		return err
	}
	b.measured.farm.llamaList = llamaList(llamas.namespace, records.namespace)
	return b.holdLists(ctx, b.measured.farm.llamaList)
}
