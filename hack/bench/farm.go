// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

const (
	farmService = "farm-operator"
	farmPath    = "/apis/farm.example.com/v1alpha"
	recordsPath = "/apis/storage.farm.example.com/v1"
	// listTurns is how often each list is read in a turn: it takes less than a second.
	listTurns    = 10
	farmListGoal = 1.5 // times the API server's list of what is below
)

var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	farmLine    = regexp.MustCompile(`Serving securely on [^\s"]*:(\d+)`)
	apiService  = farmv1alpha.GroupVersion.Version + "." + farmv1alpha.GroupName
)

// withFarm calls do while "millwright apiserver" serves, with its default flags, outside the cluster and behind its aggregator.
func (t *turn) withFarm(ctx context.Context, do func(context.Context) error) (err error) {
	process, err := t.startProcess("farm", nil, t.operator, "apiserver", "--kubeconfig", t.kubeconfig(),
		"--bind-address", "127.0.0.1", "--secure-port", "0", "--shutdown-delay-duration", "0s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.stop()) }()
	port, err := process.awaitLine(ctx, farmLine)
	if err != nil {
		return err
	}
	if err := t.registerFarm(ctx, port); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	// While an API group is registered and not served, no namespace can be deleted.
	if err := t.dynamic.Resource(apiServices).Delete(ctx, apiService, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the APIService of the farm: %w", err)
	}
	return nil
}

// registerFarm registers the API group. The aggregator accepts a Service of type ExternalName for a server that is on no node.
func (t *turn) registerFarm(ctx context.Context, port string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: farmService}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	_, err := t.kubeClient.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Service %s: %w", farmService, err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiServices.GroupVersion().String(), "kind": "APIService", "metadata": map[string]any{"name": apiService},
		"spec": map[string]any{
			"group": farmv1alpha.GroupName, "version": farmv1alpha.GroupVersion.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": metav1.NamespaceDefault, "name": farmService, "port": number},
		},
	}}
	if _, err := t.dynamic.Resource(apiServices).Create(ctx, registration, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the APIService of the farm: %w", err)
	}
	return poll(ctx, "the aggregator to reach the farm", func() bool {
		_, err := t.kubeClient.Discovery().RESTClient().Get().AbsPath(farmPath).DoRaw(ctx)
		return err == nil
	})
}

// listing is one way to read all objects of a resource.
type listing struct {
	path, accept string
	page         int // the number of objects in an answer; 0 for all
}

// compareLists adds a row that compares two lists, which are read in turn.
func (t *turn) compareLists(ctx context.Context, name string, ours, theirs listing) error {
	client := t.kubeClient.Discovery().RESTClient()
	var size, theirSize int
	return t.compare(ctx, row{Name: fmt.Sprintf("list of %d %s", t.size, name), Unit: times, Goal: farmListGoal}, listTurns,
		func() (err error) { size, err = ours.read(ctx, client); return err },
		func() (err error) { theirSize, err = theirs.read(ctx, client); return err },
		func() string {
			return fmt.Sprintf("; %.1f MiB and %.1f MiB", float64(size)/mebi, float64(theirSize)/mebi)
		})
}

// compare adds the ratio of the medians of two calls, which are made in turn.
func (t *turn) compare(ctx context.Context, r row, turns int, ours, theirs func() error, note func() string) error {
	calls := []func() error{ours, theirs}
	took := [2][]float64{}
	for i := range turns {
		for k := range calls {
			which := (i + k) % len(calls)
			begin := time.Now()
			if err := errors.Join(calls[which](), context.Cause(ctx)); err != nil {
				return err
			}
			took[which] = append(took[which], time.Since(begin).Seconds())
		}
	}
	t.add(r, median(took[0])/median(took[1]), "%.2f ms and %.2f ms%s", milli*median(took[0]), milli*median(took[1]), note())
	return nil
}

// continued matches the token in the metadata of a list, which come before the items.
var continued = regexp.MustCompile(`^[^\[]*"continue":"([^"]+)"`)

// read reads a list and returns its size in bytes, before compression.
func (l listing) read(ctx context.Context, client rest.Interface) (size int, err error) {
	for token := ""; ; {
		request := client.Get().AbsPath(l.path).SetHeader("Accept", l.accept)
		if l.page > 0 {
			request = request.Param("limit", strconv.Itoa(l.page))
		}
		if token != "" {
			request = request.Param("continue", token)
		}
		body, err := request.DoRaw(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading the list %s: %w", l.path, err)
		}
		size += len(body)
		match := continued.FindSubmatch(body[:min(len(body), 4<<10)])
		if match == nil {
			return size, nil
		}
		token = string(match[1])
	}
}
