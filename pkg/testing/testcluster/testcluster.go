// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane. Its methods may be called concurrently by several tests.
type Cluster struct {
	process *process
	config  *rest.Config
	audits  []audit
	ending  []func() error // of BeforeStop

	keepsNamespaces bool
}

// Option changes what a cluster has at its start.
type Option func(*options)

type options struct {
	crds      []string
	manifests []string
	audits    []audit
	node      bool

	keepsNamespaces bool
}

// WithNode adds a real node, which runs containers, to the simulated one. It needs Linux, root, a machine on which
// "bin/cluster node prepare" succeeds, and the images of "hack/cluster/build.sh node".
func WithNode() Option {
	return func(o *options) { o.node = true }
}

// WithCRDs installs the CRDs in a folder, relative to the root of the repository; see [Cluster.InstallCRDs].
func WithCRDs(folder string) Option {
	return func(o *options) { o.crds = append(o.crds, folder) }
}

// WithKeptNamespaces lets the namespaces of tests end with the cluster. Where many small tests share it, a fifth of all CPU time is for the
// deletion of namespaces: the control plane looks for objects of each type.
func WithKeptNamespaces() Option {
	return func(o *options) { o.keepsNamespaces = true }
}

// WithManifests installs the files, relative to the root of the repository, in this order and after the CRDs.
func WithManifests(files ...string) Option {
	return func(o *options) { o.manifests = append(o.manifests, files...) }
}

// WithAudit calls the function with all requests of the user, from the API server's audit log, after the cluster has stopped: then the log
// is complete. Several clusters may call the function concurrently. The option may be given once for each user.
func WithAudit(user string, read func(*auditv1.Event)) Option {
	return func(o *options) { o.audits = append(o.audits, audit{user: user, read: read}) }
}

// Lazy is a cluster that tests share. The first of them starts it. A package keeps it in a variable.
type Lazy struct {
	start   func() (*Cluster, error)
	cluster atomic.Pointer[Cluster] // nil until it has been started
}

// shared is the cluster that [Shared] returns; nil until Main is called. others are the clusters of [NewLazy].
var (
	shared *Lazy
	others []*Lazy
)

// NewLazy returns another cluster than [Shared], for tests that would disturb the tests on that one. [Run] stops it after the last test.
func NewLazy(options ...Option) *Lazy {
	lazy := newLazy(options)
	others = append(others, lazy)
	return lazy
}

func newLazy(options []Option) *Lazy {
	lazy := &Lazy{}
	lazy.start = sync.OnceValues(func() (cluster *Cluster, err error) {
		if cluster, err = start(options); err == nil {
			lazy.cluster.Store(cluster)
		}
		return cluster, err
	})
	return lazy
}

// Get returns the cluster. The first test that calls it waits for its start, a few seconds.
func (l *Lazy) Get(t testing.TB) *Cluster {
	t.Helper()
	cluster, err := l.start()
	if err != nil {
		t.Fatalf("testcluster: %v", err)
	}
	return cluster
}

// Main is the TestMain of a package whose tests call [Shared]. It only calls [Run].
func Main(m *testing.M, options ...Option) {
	os.Exit(Run(m, options...))
}

// Run runs the tests, stops the shared clusters that they have started, and returns the exit code. A goroutine that still runs then, or a
// cluster that has ended before, is a failure.
func Run(m *testing.M, options ...Option) (status int) {
	shared = newLazy(options)
	status = m.Run()
	for _, lazy := range append(others, shared) {
		cluster := lazy.cluster.Load()
		if cluster == nil {
			continue
		}
		if err := cluster.stop(); err != nil {
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
	if shared == nil {
		t.Fatal("testcluster.Shared needs this package to have: func TestMain(m *testing.M) { testcluster.Main(m) }")
	}
	return shared.Get(t)
}

// Start starts a cluster for this test alone. It is stopped, and waited for, when the test ends.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	cluster, err := start(options)
	if err != nil {
		t.Fatalf("testcluster: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.stop(); err != nil {
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
	process, err := startProcess(len(o.audits) > 0, o.node)
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
	cluster = &Cluster{process: process, config: config, audits: o.audits, keepsNamespaces: o.keepsNamespaces}
	for _, folder := range o.crds {
		if err := cluster.installCRDs(folder); err != nil {
			return nil, err
		}
	}
	if err := cluster.installManifests(o.manifests); err != nil {
		return nil, err
	}
	return cluster, nil
}

// BeforeStop registers a function that is called before the cluster is stopped, for example to stop a process that tests share. Its error
// fails the run.
func (c *Cluster) BeforeStop(do func() error) { c.ending = append(c.ending, do) }

// stop stops the cluster, reads the audit log, and removes its files.
func (c *Cluster) stop() error {
	var err error
	for _, do := range c.ending {
		err = errors.Join(err, do())
	}
	err = errors.Join(err, c.process.halt())
	for _, audit := range c.audits {
		err = errors.Join(err, audit.readLog(c.process.auditLog()))
	}
	return errors.Join(err, c.process.remove())
}

// Config returns a configuration for clients with full rights and without a limit on requests. The caller may change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig with full rights.
func (c *Cluster) Kubeconfig() string { return c.process.kubeconfig() }

// repositoryRoot returns the folder with the go.mod of the main module. go test runs tests in the folder of their package.
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
