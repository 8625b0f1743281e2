package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/hack/cluster/simnode"
)

// pollInterval is how often a condition is checked that the start waits for.
const pollInterval = 50 * time.Millisecond

// waitForAPIServer waits until the API server reports that it is ready.
func waitForAPIServer(ctx context.Context, client kubernetes.Interface) error {
	return waitUntil(ctx, "the API server is ready", func(ctx context.Context) error {
		return client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitForCluster waits until Pods can be created in the namespace default, and scheduled if there are simulated nodes.
func waitForCluster(ctx context.Context, client kubernetes.Interface, simulatedNodes int) error {
	err := waitUntil(ctx, "ServiceAccount default/default exists", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil || simulatedNodes == 0 {
		return err
	}
	return waitUntil(ctx, fmt.Sprintf("%d simulated nodes are ready", simulatedNodes), func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && !simnode.AllReady(nodes.Items, simulatedNodes) {
			err = errors.New("some are not")
		}
		return err
	})
}

// waitUntil waits until the check passes. The error is the cause of the context's end, with the error of the last check.
func waitUntil(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); ctx.Err() == nil {
			last = err
			return err == nil, nil
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w (last: %w)", what, context.Cause(ctx), last)
	}
	return nil
}
