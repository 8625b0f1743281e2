// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/parents"
)

// bareCalls is how long the hook is called by nobody but us.
const bareCalls = 3 * time.Second

// requestBody is what the hook is asked about the first parent, which has one child.
func (h *hosting) requestBody(ctx context.Context) ([]byte, error) {
	parent, err := h.parents().Get(ctx, objectName(0), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading parent %s/%s: %w", h.namespace, objectName(0), err)
	}
	parent.SetManagedFields(nil)
	child, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).Get(ctx, parents.ChildName(objectName(0), 0), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the child of parent %s/%s: %w", h.namespace, objectName(0), err)
	}
	child.APIVersion, child.Kind, child.ManagedFields = "v1", "ConfigMap", nil
	controller := h.controller.DeepCopy()
	controller.ManagedFields = nil
	return json.Marshal(map[string]any{
		"controller": controller,
		"parent":     parent,
		"children":   map[string]any{"ConfigMap.v1": map[string]any{child.Name: child}},
		"related":    map[string]any{},
		"finalizing": false,
	})
}

// callHook returns how many answers a second the hook gives to as many calls at the same time as the operator makes.
func callHook(ctx context.Context, url string, body []byte) (perSecond float64, err error) {
	transport := &http.Transport{MaxIdleConnsPerHost: callsAtOnce}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var answers atomic.Int64
	begin := time.Now()
	err = inParallelBy(ctx, callsAtOnce, callsAtOnce, func(ctx context.Context, _ int) error {
		for time.Since(begin) < bareCalls {
			if err := callOnce(ctx, client, url, body); err != nil {
				return err
			}
			answers.Add(1)
		}
		return nil
	})
	return float64(answers.Load()) / time.Since(begin).Seconds(), err
}

func callOnce(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("calling the hook: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("calling the hook: %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
