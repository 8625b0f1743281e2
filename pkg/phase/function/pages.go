// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

// A Pod and a ReplicaSet may have more than a MiB each, of which little is used. A process with the memory limit of the shipped Deployment reads the Pods or
// ReplicaSets of maxListed workloads at a time, in pages of pageSize.
const (
	maxListed = 2
	pageSize  = 16
	// memoryOfByte is about how much memory a typed object with many small values takes for each byte of its Size, which is that as protobuf.
	memoryOfByte = 8
)

// listed are taken by the workloads whose Pods or ReplicaSets are being read.
var listed = sync.OnceValue(func() *inflight.Limit[struct{}] { return inflight.NewTotalLimit(inflight.AtMostForMemory(maxListed)) })

// EachPod calls use for each Pod that the selector selects, until it returns an error.
func EachPod(ctx context.Context, client kubernetes.Interface, namespace string, selector *metav1.LabelSelector, use func(*corev1.Pod) error) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Pods(namespace).List(ctx, options)
	}
	return eachOf(ctx, list, selector, func(o runtime.Object) error { return use(o.(*corev1.Pod)) })
}

// CurrentReplicaSet returns the ReplicaSet of the Deployment's revision, without its spec; nil if there is none. It calls read with the size in bytes of each
// ReplicaSet that it reads, until that returns an error; read may be nil.
func CurrentReplicaSet(
	ctx context.Context, client kubernetes.Interface, deployment metav1.Object, selector *metav1.LabelSelector, read func(bytes int) error,
) (current metav1.Object, _ error) {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.AppsV1().ReplicaSets(deployment.GetNamespace()).List(ctx, options)
	}
	err := eachOf(ctx, list, selector, func(o runtime.Object) error {
		set := o.(*appsv1.ReplicaSet)
		if current == nil && isCurrent(set, deployment) {
			current = &metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace, UID: set.UID}
		}
		if read == nil {
			return nil
		}
		return read(set.Size())
	})
	return current, err
}

func eachOf(ctx context.Context, list pager.ListPageFunc, selector *metav1.LabelSelector, use func(runtime.Object) error) error {
	release, err := listed().Acquire(ctx, struct{}{})
	if err != nil {
		return context.Cause(ctx)
	}
	defer release()
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		phase.AddReads(ctx, 1, 0)
		return list(ctx, options)
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 0 // without a buffer one page is read while another one is used
	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)}, func(listed runtime.Object) error {
		addMemory(ctx, listed)
		return use(listed)
	})
}

// addMemory adds a typed object that was read to the Reads of the context.
func addMemory(ctx context.Context, object runtime.Object) {
	if sized, ok := object.(interface{ Size() int }); ok {
		phase.AddReads(ctx, 0, memoryOfByte*sized.Size())
	}
}
