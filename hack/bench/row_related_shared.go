// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// sharedChanges is the number of changes of the shared ConfigMap.
const sharedChanges = 5

var relatedShared = scenario{
	name: "related-shared", about: "syncs of all parents that share a ConfigMap, after it has changed, over what their slow hook can answer",
	size: 1000, quickSize: 100,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, customized(slow), measureShared) },
}

func measureShared(ctx context.Context, h *hosting) error {
	if err := h.createConfigMap(ctx, sharedName, nil, nil); err != nil {
		return err
	}
	if err := h.converge(ctx, 0, h.size, parentSpec{Value: aValue, Shared: true}); err != nil {
		return err
	}
	ours := 0.0
	rise, _, err := h.engine.spendBusy(ctx, func() error {
		for i := range sharedChanges {
			seconds, err := h.changeShared(ctx, h.size, fmt.Sprint("change ", i))
			if err != nil {
				return err
			}
			ours += seconds / sharedChanges
		}
		return sleep(ctx, churnPause)
	})
	if err != nil {
		return err
	}
	theirs, err := h.callSyncHook(ctx, h.size, slow)
	if err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("sync of %d parents that share a ConfigMap, over the hook alone", h.size), Unit: times, Goal: 1.2}, ours/theirs,
		"%.2f s, the hook alone %.2f s; %.2f syncs of each parent", ours, theirs, rise[hookAnswers]/float64(sharedChanges*h.size))
	h.add(row{Name: "  CPU of each sync", Unit: milliseconds, Goal: 0.1, Most: 0.2}.of(h.turn), milli*rise[cpuSeconds]/rise[hookAnswers],
		"mean of %.0f syncs", rise[hookAnswers])
	return nil
}

// changeShared changes the shared ConfigMap. It returns the seconds until the hook has been called with the new value for that number of parents.
func (h *hosting) changeShared(ctx context.Context, parents int, value string) (seconds float64, err error) {
	begin := time.Now()
	if err := h.setValue(ctx, sharedName, value); err != nil {
		return 0, err
	}
	last, err := h.seen.await(ctx, parents, milestone{callsKind, value})
	return last.Sub(begin).Seconds(), err
}

// callSyncHook returns the seconds that a bare client needs which calls the sync hook, as often and as many times concurrently as the operator
// does, with what the operator has sent last.
func (h *hosting) callSyncHook(ctx context.Context, calls int, query string) (seconds float64, err error) {
	body := *h.hookCalls.last.Load()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callsInParallel}}
	defer client.CloseIdleConnections()
	begin := time.Now()
	err = inParallel(ctx, callsInParallel, calls, func(ctx context.Context, _ int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.hookAddress+syncPath+query, bytes.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the hook answers %s", resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("calling the hook: %w", err)
	}
	return time.Since(begin).Seconds(), nil
}
