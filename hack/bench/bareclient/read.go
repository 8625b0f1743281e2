// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/generated/clientset/versioned"
)

// ReadAll reads every ImmortalContainer and its Pod as the operator's informers do when they start, both at a time, and
// returns their numbers. It keeps nothing of them.
func ReadAll(ctx context.Context, config *rest.Config) (containers, pods int, err error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return 0, 0, fmt.Errorf("making the bare client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, 0, fmt.Errorf("making the bare client: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var podsErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		pods, podsErr = stream(ctx, kubeClient.CoreV1().Pods("").Watch, managed)
	}()
	containers, err = stream(ctx, client.ImmortalcontainersV1alpha1().ImmortalContainers("").Watch, "")
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
