// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// ReadAll reads every ImmortalContainer and its Pod as the operator's informers do when they start, both at a time, and
// returns their numbers. It keeps nothing of them.
func (c *Client) ReadAll(ctx context.Context) (containers, pods int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var podsErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		pods, podsErr = stream(ctx, c.pods.Watch, managedPods)
	}()
	containers, err = stream(ctx, c.containers.Watch, "")
	if err != nil {
		cancel()
	}
	<-done
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("reading all ImmortalContainers: %w", err)
	case podsErr != nil:
		return 0, 0, fmt.Errorf("reading all Pods: %w", podsErr)
	}
	return containers, pods, nil
}

// stream counts the initial events of a watch.
func stream(ctx context.Context, start func(context.Context, metav1.ListOptions) (watch.Interface, error), selector string) (count int, err error) {
	watcher, err := start(ctx, metav1.ListOptions{
		LabelSelector:        selector,
		AllowWatchBookmarks:  true,
		SendInitialEvents:    ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return 0, err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added:
			count++
		case watch.Bookmark:
			return count, nil // the first one marks the end of the initial events
		}
	}
	return 0, fmt.Errorf("the watch has ended after %d objects", count)
}
