// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// listeners is how many watch when something changes; so often does it in each of the rounds.
	listeners, changesPerRound, roundsPerRepetition = 100, 20, 3
	// listenerBuffer is room for an event.
	listenerBuffer = 32 << 10
	farmObject     = "dolly"
)

// fanOutContest is what a change took until the last of the watchers has seen it: watchers of ours, and of what is below. In seconds.
type fanOutContest struct {
	duel
	cpu, theirCPU []float64 // of control plane and farm, for each change
}

// measureFarmWatches measures what it takes to tell many, and what it takes to have nothing to tell them.
func (b *bench) measureFarmWatches(ctx context.Context) error {
	p, err := b.newPopulation(ctx, 1)
	if err != nil {
		return err
	}
	if err := p.createFarmPods(ctx); err != nil {
		return err
	}
	err = b.withFarm(ctx, nil, func(ctx context.Context, f *farm) error {
		if err := p.createLlama(ctx, farmObject); err != nil {
			return err
		}
		changePod := func(ctx context.Context, change string) error {
			_, err := b.kubeClient.CoreV1().Pods(p.namespace).Patch(ctx, objectName(0), types.MergePatchType, []byte(`{"metadata":{"annotations":{"change":"`+change+`"}}}`), metav1.PatchOptions{})
			return err
		}
		if err := f.holdFanOut(ctx, p, &b.measured.farm.pods, farmPath, "farmpods", "/api/v1", "pods", changePod); err != nil {
			return err
		}
		changeRecord := func(ctx context.Context, change string) error {
			patch := `{"spec":{"object":{"metadata":{"annotations":{"change":"` + change + `"}}}}}`
			_, err := b.client.FarmStorageV1().LlamaRecords(p.namespace).Patch(ctx, farmObject, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
		return f.holdFanOut(ctx, p, &b.measured.farm.llamas, farmPath, "llamas", recordsPath, "llamarecords", changeRecord)
	})
	if err != nil {
		return err
	}
	if b.measured.farm.idlePods, err = b.measureIdleWatches(ctx, p, "farmpods"); err != nil {
		return err
	}
	if b.measured.farm.idleLlamas, err = b.measureIdleWatches(ctx, p, "llamas"); err != nil {
		return err
	}
	return p.remove(ctx)
}

// holdFanOut lets the watchers of two resources hear of the same changes, in turn.
func (f *farm) holdFanOut(ctx context.Context, p *population, c *fanOutContest, group, resource, theirGroup, theirResource string, change func(context.Context, string) error) error {
	b := f.bench
	for round := range b.repetitions * roundsPerRepetition {
		turns := []func() error{
			func() error { return f.tell(ctx, p, group, resource, change, &c.took, &c.cpu) },
			func() error { return f.tell(ctx, p, theirGroup, theirResource, change, &c.theirTook, &c.theirCPU) },
		}
		for k := range turns {
			if err := turns[(round+k)%len(turns)](); err != nil {
				return err
			}
		}
	}
	b.say("A change until %d watchers have seen it: of %s %.1f ms, of %s %.1f ms", listeners, resource, milli*middle(c.took), theirResource, milli*middle(c.theirTook))
	return nil
}

// tell makes changes one after the other, each when all watchers have heard of the one before.
func (f *farm) tell(ctx context.Context, p *population, group, resource string, change func(context.Context, string) error, took, cpu *[]float64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan error, listeners)
	for range listeners {
		config := rest.CopyConfig(f.bench.config)
		config.DisableCompression = true
		client, err := clientOfItsOwn(config)
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		body, err := openWatch(ctx, f.bench.config.Host, client, group, p.namespace, resource)
		if err != nil {
			return err
		}
		go listen(body, heard)
	}
	before, err := f.allCPU(ctx)
	if err != nil {
		return err
	}
	var all []float64
	for i := range changesPerRound {
		one, err := timed(func() error {
			if err := change(ctx, fmt.Sprint(time.Now().UnixNano(), i)); err != nil {
				return fmt.Errorf("changing what %d watchers of %s hear of: %w", listeners, resource, err)
			}
			return hearAll(ctx, heard)
		})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	after, err := f.allCPU(ctx)
	*took, *cpu = append(*took, middle(all)), append(*cpu, (after-before)/changesPerRound)
	return err
}

// clientOfItsOwn has a connection that it shares with nobody, as the clients of a cluster have.
func clientOfItsOwn(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableCompression: true}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: wrapped}, nil
}

// openWatch opens a watch from now on.
func openWatch(ctx context.Context, host string, client *http.Client, group, namespace, resource string) (io.ReadCloser, error) {
	path := fmt.Sprintf("%s/namespaces/%s/%s", group, namespace, resource)
	list, err := get(ctx, host, client, listing{path: path, accept: acceptJSON}, "")
	if err != nil {
		return nil, err
	}
	var begin metav1.PartialObjectMetadataList
	if err := json.Unmarshal(list, &begin); err != nil {
		return nil, fmt.Errorf("reading the list %s: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+path+"?watch=true&allowWatchBookmarks=true&resourceVersion="+begin.ResourceVersion, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("watching %s: %s", path, response.Status)
	}
	return response.Body, nil
}

// listen tells of each event, and why there are no more.
func listen(body io.ReadCloser, heard chan<- error) {
	defer body.Close()
	events := bufio.NewReaderSize(body, listenerBuffer)
	for {
		line, err := events.ReadSlice('\n')
		if err == nil && bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			continue
		}
		heard <- err
		if err != nil {
			return
		}
	}
}

func hearAll(ctx context.Context, heard <-chan error) error {
	for range listeners {
		select {
		case err := <-heard:
			if err != nil {
				return fmt.Errorf("a watch has ended: %w", err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// allCPU is what control plane and farm have taken, in seconds.
func (f *farm) allCPU(ctx context.Context) (float64, error) {
	controlPlane, err := f.bench.counters(ctx)
	if err != nil {
		return 0, err
	}
	m, err := f.metrics(ctx)
	return controlPlane.cpuSeconds + m.cpuSeconds, err
}
