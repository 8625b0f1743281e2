// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

const (
	farmService = "farm-operator"
	farmPath    = "/apis/farm.example.com/v1alpha"
	recordsPath = "/apis/storage.farm.example.com/v1"
)

var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	farmLine    = regexp.MustCompile(`Serving securely on [^\s"]*:(\d+)`)
)

// farm is "millwright apiserver" with its default flags, outside the cluster and behind its aggregator.
type farm struct {
	*process
	bench *bench
}

// withFarm has something done while the server serves.
func (b *bench) withFarm(ctx context.Context, do func(context.Context, *farm) error) (err error) {
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	f := &farm{bench: b}
	if f.process, err = startProcess(b.dir, "farm", nil, binary("millwright"), "apiserver", "--kubeconfig", b.kubeconfig(),
		"--bind-address", "127.0.0.1", "--secure-port", "0", "--shutdown-delay-duration", "0s"); err != nil {
		return err
	}
	f.onEnd(fail)
	defer func() { err = errors.Join(err, f.leave(ctx), f.stop()) }()
	if err := f.join(working); err != nil {
		return err
	}
	return do(working, f)
}

// join makes the server that of its API group. A Service of type ExternalName is what the aggregator accepts for one that is on no node.
func (f *farm) join(ctx context.Context) error {
	port := 0
	err := f.await(ctx, "the farm to serve", func() bool {
		log, err := os.ReadFile(f.log)
		if match := farmLine.FindSubmatch(log); err == nil && match != nil {
			port, _ = strconv.Atoi(string(match[1]))
		}
		return port != 0
	})
	if err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: farmService}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	if _, err := f.bench.kubeClient.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Service %s: %w", farmService, err)
	}
	if _, err := f.bench.dynamic.Resource(apiServices).Create(ctx, apiService(port), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the APIService of the farm: %w", err)
	}
	var last error
	err = f.await(ctx, "the aggregator to reach the farm", func() bool {
		_, last = f.bench.kubeClient.Discovery().RESTClient().Get().AbsPath(farmPath).DoRaw(ctx)
		return last == nil
	})
	return errors.Join(err, last)
}

// leave takes the API group away. While nobody served it, no namespace could be deleted.
func (f *farm) leave(ctx context.Context) error {
	err := f.bench.dynamic.Resource(apiServices).Delete(ctx, apiService(0).GetName(), metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("deleting the APIService of the farm: %w", err)
}

func apiService(port int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiServices.GroupVersion().String(),
		"kind":       "APIService",
		"metadata":   map[string]any{"name": farmv1alpha.GroupVersion.Version + "." + farmv1alpha.GroupName},
		"spec": map[string]any{
			"group": farmv1alpha.GroupName, "version": farmv1alpha.GroupVersion.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": metav1.NamespaceDefault, "name": farmService, "port": int64(port)},
		},
	}}
}
