// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane. Its methods may be called from several tests at a time.
type Cluster struct {
	process *process
	config  *rest.Config
}

// Option changes what a cluster has when it is handed to the tests.
type Option func(*options)

type options struct {
	crds []string
}

// WithCRDs installs the CRDs in a folder, given relative to the root of the repository; see [Cluster.InstallCRDs].
func WithCRDs(folder string) Option {
	return func(o *options) { o.crds = append(o.crds, folder) }
}

// shared is the cluster of this test binary.
var shared struct {
	options []Option
	start   func() (*Cluster, error) // nil until Main has been called
	cluster *Cluster
}

// Main is the TestMain of a package whose tests call [Shared]. It runs them, stops the cluster if any of them has started it,
// and exits. Goroutines that are still there then, or a cluster that did not live until then, count as a failure.
func Main(m *testing.M, options ...Option) {
	os.Exit(runTests(m, options))
}

func runTests(m *testing.M, options []Option) (status int) {
	shared.start = sync.OnceValues(func() (cluster *Cluster, err error) {
		shared.cluster, err = start(options)
		return shared.cluster, err
	})
	status = m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.process.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "testcluster:", err)
			status = 1
		}
	}
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "testcluster: after the tests:", err)
			status = 1
		}
	}
	return status
}

// Shared returns the one cluster of this test binary. The first test that calls it waits for its start, a few seconds. The
// package's TestMain has to call [Main].
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if shared.start == nil {
		t.Fatal("testcluster.Shared needs this package to have: func TestMain(m *testing.M) { testcluster.Main(m) }")
	}
	cluster, err := shared.start()
	if err != nil {
		t.Fatalf("testcluster: %v", err)
	}
	return cluster
}

// Start starts a cluster for this test alone. It is stopped, and waited for, when the test ends.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	cluster, err := start(options)
	if err != nil {
		t.Fatalf("testcluster: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.process.stop(); err != nil {
			t.Errorf("testcluster: %v", err)
		}
	})
	return cluster
}

func start(chosen []Option) (cluster *Cluster, err error) {
	var o options
	for _, option := range chosen {
		option(&o)
	}
	process, err := startProcess()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, process.stop())
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", process.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the new cluster: %w", err)
	}
	config.QPS = -1 // the server's priority and fairness is enough
	cluster = &Cluster{process: process, config: config}
	for _, folder := range o.crds {
		if err := cluster.installCRDs(folder); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// Config returns a configuration for clients with full rights and without a limit on requests. It is the caller's to change.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig with full rights.
func (c *Cluster) Kubeconfig() string { return c.process.kubeconfig() }

// repositoryRoot is the folder of the go.mod that this package belongs to: go test runs tests in the folder of their package.
var repositoryRoot = sync.OnceValues(func() (string, error) {
	begin, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := begin; ; dir = filepath.Dir(dir) {
		if isRoot(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not within a checkout of %s, where bin/cluster is: run the tests by go test", begin, module)
		}
	}
})
