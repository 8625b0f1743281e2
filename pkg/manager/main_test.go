// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
	"millwright.dev/pkg/kubeconfig"
)

func TestMain(m *testing.M) {
	// The second handler sleeps with a lock held that all tests share, and would do so in the time of one bubble for another.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// fakeCluster is what all processes of a test share. It refuses an update of a Lease from an old version, which fakes do
// not do by themselves.
type fakeCluster struct {
	*kubefake.Clientset
	millwright *fake.Clientset
	discovery  sync.Mutex
}

// serve further resources. The fake's list is not made to be changed while it is in use.
func (c *fakeCluster) serve(list *metav1.APIResourceList) {
	c.discovery.Lock()
	defer c.discovery.Unlock()
	c.Resources = append(c.Resources, list)
}

// serveNothing deletes all CustomResourceDefinitions.
func (c *fakeCluster) serveNothing() {
	c.discovery.Lock()
	defer c.discovery.Unlock()
	c.Resources = nil
}

func newFakeCluster() *fakeCluster {
	c := &fakeCluster{Clientset: kubefake.NewClientset(), millwright: fake.NewClientset()}
	watchCopies(&c.Fake, c.Tracker())
	watchCopies(&c.millwright.Fake, c.millwright.Tracker())
	c.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.discovery.Lock()
		defer c.discovery.Unlock()
		return false, nil, nil
	})
	var mu sync.Mutex
	version := 0
	c.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(clienttesting.CreateAction) // an UpdateAction is one too
		if !ok {
			return false, nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		lease := write.GetObject().(*coordinationv1.Lease).DeepCopy()
		version++
		newVersion := strconv.Itoa(version)
		if action.GetVerb() == "create" {
			lease.ResourceVersion = newVersion
			return true, lease, c.Tracker().Create(leases, lease, lease.Namespace)
		}
		current, err := c.Tracker().Get(leases, lease.Namespace, lease.Name)
		if err != nil {
			return true, nil, err
		}
		if current.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
			return true, nil, apierrors.NewConflict(leases.GroupResource(), lease.Name, errors.New("old version"))
		}
		lease.ResourceVersion = newVersion
		return true, lease, c.Tracker().Update(leases, lease, lease.Namespace)
	})
	return c
}

// holder of the Lease; "" if it is empty, "absent" if there is none.
func (c *fakeCluster) holder(t *testing.T) string {
	t.Helper()
	lease, err := c.CoordinationV1().Leases("system").Get(t.Context(), "lease", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// process is one Run.
type process struct {
	t       *testing.T
	config  *Config
	logs    func() string
	ctx     context.Context
	stop    context.CancelCauseFunc
	ended   chan struct{}
	err     error       // once it has ended
	exited  atomic.Bool // Run called exit
	cut     atomic.Bool // while true the API server does not answer the election's requests
	lacking atomic.Bool // while true informers are answered that widgets are not served
	cluster *fakeCluster
	// unlisted is true while no informer lists a resource of ours.
	unlisted atomic.Bool
}

// newProcess is started by start. Nothing is served, and there is leader election with the default times.
func newProcess(t *testing.T, cluster *fakeCluster, controllers ...Descriptor) *process {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	p := &process{
		t:       t,
		cluster: cluster,
		ended:   make(chan struct{}),
		logs:    func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() },
	}
	p.ctx, p.stop = context.WithCancelCause(klog.NewContext(t.Context(), logger))
	election := NewOptions().LeaderElection
	election.Namespace, election.Name = "system", "lease"
	p.config = &Config{
		Version:         "test",
		Controllers:     controllers,
		Workers:         3,
		LeaderElection:  &election,
		ShutdownTimeout: 15 * time.Second,
		clients:         p,
		cluster:         &kubeconfig.Cluster{Config: &rest.Config{}},
		exit:            func(int) { p.exited.Store(true) },
	}
	return p
}

func (p *process) start() *process {
	go func() {
		defer close(p.ended)
		p.err = Run(p.ctx, p.config)
	}()
	return p
}

// end asks the process to stop and returns what Run returns.
func (p *process) end() error {
	p.stop(nil)
	<-p.ended
	return p.err
}

func (p *process) clients(string, func() error) (versioned.Interface, kubernetes.Interface, error) {
	return p.cluster.millwright, p.cluster, nil
}

func (p *process) informerClients(component string, mayWrite func() error) (versioned.Interface, kubernetes.Interface, error) {
	return p.clients(component, mayWrite)
}

func (p *process) optionalClient(string, func() error) (kubernetes.Interface, error) {
	return p.cluster, nil
}

func (p *process) restConfig(string, func() error) *rest.Config {
	return &rest.Config{Transport: silent{}}
}
func (p *process) informerConfig(string, func() error) *rest.Config {
	return &rest.Config{Transport: silent{}}
}

func (p *process) checkWatches(*http.Request) error { return nil }

func (p *process) lacks(resource schema.GroupVersionResource) bool {
	return p.lacking.Load() && resource == widgets
}

func (p *process) lists(schema.GroupVersionResource) bool { return !p.unlisted.Load() }

// silent is the API server for objects of any kind, of which fakes have none: it does not answer.
type silent struct{}

func (silent) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, context.Cause(request.Context())
}

func (p *process) electionClient(time.Duration) (coordinationv1client.LeasesGetter, error) {
	return p, nil
}

func (p *process) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &cuttableLeases{LeaseInterface: p.cluster.CoordinationV1().Leases(namespace), cut: &p.cut}
}

type cuttableLeases struct {
	coordinationv1client.LeaseInterface
	cut *atomic.Bool
}

var errCut = errors.New("dial tcp: connection refused")

func (c *cuttableLeases) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.LeaseInterface.Get(ctx, name, options)
}

func (c *cuttableLeases) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.LeaseInterface.Update(ctx, lease, options)
}

// toy is a controller that notes what is done with it.
type toy struct {
	name     string
	requires []schema.GroupVersionResource
	fails    error         // of the constructor
	hangs    chan struct{} // Run does not return before it is closed; nil if it does not hang
	watches  bool          // it has an informer of Pods

	context  *Context
	synced   []cache.DoneChecker
	runs     atomic.Int32 // how often Run was called
	tooLate  atomic.Int32 // ... of these, with a context that had ended
	workers  atomic.Int32
	working  atomic.Bool
	overdue  atomic.Bool // CheckSyncs fails
	finished func()      // called when Run returns, unless nil
}

func (t *toy) descriptor() Descriptor {
	return Descriptor{Name: t.name, Requires: t.requires, New: func(_ context.Context, c *Context) (controller.Controller, error) {
		if t.fails != nil {
			return nil, t.fails
		}
		t.context = c
		if t.watches {
			informer := c.KubeInformers.Core().V1().Pods().Informer()
			controller.ReportWatchErrors(informer, corev1.Resource("pods"))
			t.synced = []cache.DoneChecker{informer.HasSyncedChecker()}
		}
		return t, nil
	}}
}

func (t *toy) Run(ctx context.Context, workers int) {
	t.runs.Add(1)
	if ctx.Err() != nil {
		t.tooLate.Add(1)
		return
	}
	t.workers.Store(int32(workers))
	t.working.Store(true)
	defer t.working.Store(false)
	<-ctx.Done()
	if t.hangs != nil {
		<-t.hangs
	}
	if t.finished != nil {
		t.finished()
	}
}

func (t *toy) Synced() []cache.DoneChecker { return t.synced }

func (t *toy) CheckSyncs() error {
	if t.overdue.Load() {
		return errors.New("the sync of default/x has been running for 11m")
	}
	return nil
}

// linesWith counts the lines of the log that contain the text.
func linesWith(log, text string) int {
	return len(slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool { return !strings.Contains(line, text) }))
}

// recordEvent about some object that the scheme of our kinds need not know.
func (t *toy) recordEvent(reason string) {
	t.context.Recorder.Event(&corev1.ObjectReference{Kind: "Toy", Namespace: "default", Name: "x"}, corev1.EventTypeNormal, reason, "message")
}

// newLease is held by someone else since now.
func newLease(holder string, seconds int32) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}
