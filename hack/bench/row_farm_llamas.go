// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/traffic"
	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	farmstoragev1 "millwright.dev/pkg/apis/farmstorage/v1"
)

const (
	// llamaTurns is the number of Llamas that are created and read one after the other.
	llamaTurns       = 200
	llamaRequestGoal = 2.5 // times the API server's request for a record
)

var farmLlamas = scenario{
	name: "farm-llamas", about: "creation, reads and lists of Llamas by the aggregated API server, over those of the records that hold them",
	size: 5000, quickSize: 200, once: true,
	measure: func(ctx context.Context, t *turn) error {
		llamas, err := t.newNamespace(ctx)
		if err != nil {
			return err
		}
		records, err := t.newNamespace(ctx)
		if err != nil {
			return err
		}
		// Namespaces go while their API is served.
		return t.withFarm(ctx, func(ctx context.Context) error {
			if err := t.measureLlamas(ctx, llamas, records); err != nil {
				return err
			}
			if err := llamas.remove(ctx); err != nil {
				return err
			}
			return records.remove(ctx)
		})
	},
}

func (t *turn) measureLlamas(ctx context.Context, llamas, records *namespace) error {
	ours, theirs := t.client.FarmV1alpha().Llamas(llamas.name), t.client.FarmStorageV1().LlamaRecords(records.name)
	createLlama := func(ctx context.Context, name string) error {
		_, err := ours.Create(ctx, &farmv1alpha.Llama{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"herd": "north"}}, Spec: farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5},
		}, metav1.CreateOptions{})
		return err
	}
	if err := createLlama(ctx, "model"); err != nil {
		return fmt.Errorf("creating a Llama: %w", err)
	}
	model, err := t.client.FarmStorageV1().LlamaRecords(llamas.name).Get(ctx, "model", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the record of a Llama: %w", err)
	}
	createRecord := func(ctx context.Context, name string) error { // with the size of the model
		_, err := theirs.Create(ctx, &farmstoragev1.LlamaRecord{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: model.Labels}, Spec: farmstoragev1.LlamaRecordSpec{Object: model.Spec.Object},
		}, metav1.CreateOptions{})
		return err
	}
	number := min(llamaTurns, t.size)
	// each returns a function that makes a request for the next name.
	each := func(request func(ctx context.Context, name string) error) func() error {
		i := 0
		return func() error {
			i++
			return request(ctx, traffic.ObjectName(i-1))
		}
	}
	none := func() string { return "" }
	err = t.compare(ctx, row{Name: "creation of a Llama, over a LlamaRecord", Unit: times, Goal: llamaRequestGoal}, number, each(createLlama), each(createRecord), none)
	if err != nil {
		return err
	}
	err = t.compare(ctx, row{Name: "get of a Llama, over a LlamaRecord", Unit: times, Goal: llamaRequestGoal}, number,
		each(func(ctx context.Context, name string) error {
			_, err := ours.Get(ctx, name, metav1.GetOptions{})
			return err
		}),
		each(func(ctx context.Context, name string) error {
			_, err := theirs.Get(ctx, name, metav1.GetOptions{})
			return err
		}), none)
	if err != nil {
		return err
	}
	err = inParallel(ctx, writers, t.size-number, func(ctx context.Context, i int) error {
		if err := createLlama(ctx, traffic.ObjectName(number+i)); err != nil {
			return err
		}
		return createRecord(ctx, traffic.ObjectName(number+i))
	})
	if err != nil {
		return fmt.Errorf("creating Llamas and records: %w", err)
	}
	return t.compareLists(ctx, "Llamas, over LlamaRecords", listing{farmPath + "/namespaces/" + llamas.name + "/llamas", acceptJSON, 0},
		listing{recordsPath + "/namespaces/" + records.name + "/llamarecords", acceptJSON, 0})
}
