// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"

	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/faultproxy"
)

// reader has the methods that the clients of several kinds have in common.
type reader struct {
	list  func(context.Context, metav1.ListOptions) (metav1.ListInterface, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// readersOf returns readers of Llamas and FarmPods, and of the records and Pods that they are made of.
func (e *farmEnv) readersOf() map[string]reader {
	return map[string]reader{
		"llamas": {readList(e.llamas.List), e.llamas.Watch}, "farmpods": {readList(e.pods.List), e.pods.Watch},
		"llamarecords": {readList(e.client.FarmStorageV1().LlamaRecords(e.namespace).List), e.client.FarmStorageV1().LlamaRecords(e.namespace).Watch},
		"pods":         {readList(e.kube.CoreV1().Pods(e.namespace).List), e.kube.CoreV1().Pods(e.namespace).Watch},
	}
}

func readList[List interface {
	runtime.Object
	metav1.ListInterface
}](list func(context.Context, metav1.ListOptions) (List, error)) func(context.Context, metav1.ListOptions) (metav1.ListInterface, error) {
	return func(ctx context.Context, options metav1.ListOptions) (metav1.ListInterface, error) {
		return list(ctx, options)
	}
}

// clientOf returns a client for the kubeconfig.
func (e *farmFault) clientOf(kubeconfig string) versioned.Interface {
	e.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		e.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		e.Fatal(err)
	}
	return client
}

// compacted: etcd is compacted and the control plane restarted. Requests for compacted versions return the same errors as for records and
// Pods, and informers list again.
func (e *farmFault) compacted() {
	for i := range 3 {
		e.createLlama(newLlama(fmt.Sprintf("paged-%d", i)))
		e.createPod(fmt.Sprintf("paged-%d", i), 1, onNoNode)
	}
	var journal faultproxy.Journal
	proxy, kubeconfig := startProxy(e, "informers", e.cluster.Config(), &journal)
	follows := e.follow(e.clientOf(kubeconfig))
	follows.sees("before-the-restart")
	pages := map[string]metav1.ListInterface{}
	for name, read := range e.readersOf() {
		page, err := read.list(e.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || page.GetContinue() == "" {
			e.Fatalf("%s: %+v, %v", name, page, err)
		}
		pages[name] = page
	}
	proxy.Refuse()
	e.createLlama(newLlama("unseen"))
	e.createPod("unseen", 1)
	running := slices.Clone(e.farm.replicas)
	e.cluster.Compact(e)
	e.cluster.Restart(e)
	e.farm.poke(e)
	e.farm.awaitAvailable(e)
	cameBack := time.Now()
	if err := proxy.Accept(); err != nil {
		e.Fatal(err)
	}

	for name, read := range e.readersOf() {
		_, err := read.list(e.Context(), metav1.ListOptions{Limit: 1, Continue: pages[name].GetContinue()})
		if !apierrors.IsResourceExpired(err) {
			e.Errorf("%s: page of a compacted version: got %v, want expired", name, err)
		}
		exact := metav1.ListOptions{ResourceVersion: pages[name].GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		_, err = read.list(e.Context(), exact)
		if !apierrors.IsResourceExpired(err) {
			e.Errorf("%s: list of exactly a compacted version: got %v, want expired", name, err)
		}
		watcher, err := read.watch(e.Context(), metav1.ListOptions{ResourceVersion: pages[name].GetResourceVersion()})
		if err == nil {
			event := next(e, watcher)
			watcher.Stop()
			if event.Type == watch.Error {
				err = apierrors.FromObject(event.Object)
			}
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			e.Errorf("%s: watch from a compacted version: got %v, want expired", name, err)
		}
	}
	follows.sees("after-the-restart")
	if len(follows.deleted) > 0 {
		e.Errorf("informers: got deletions of %v, want none", follows.deleted)
	}
	for _, resource := range []string{"llamas", "farmpods"} {
		if len(journal.Select(func(entry faultproxy.Entry) bool {
			return entry.Resource == resource && entry.Received.After(cameBack) && (entry.Verb == "list" || entry.Query.Get("sendInitialEvents") == "true")
		})) == 0 {
			e.Errorf("%s: the informer has not listed again", resource)
		}
	}
	if !slices.Equal(running, e.farm.replicas) {
		e.Error("the servers of the farm were restarted")
	}
	for _, server := range running {
		server.awaitReady(e.T, e.cluster)
	}
}
