// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/fakeapi"
)

var ccResource = func() fakeapi.Resource {
	r := fakeapi.Custom(v1alpha1.Resource("compositecontrollers").WithVersion("v1alpha1"), &v1alpha1.CompositeController{})
	r.ClusterScoped = true
	return r
}()

// fakeParents is a parentController that syncs nothing.
type fakeParents struct {
	name             string
	health           parent.Health
	started, stopped bool
	anyFinalizer     bool
	overlaps         int
	metadata         *parent.Declaration
	did              *[]string
}

func (p *fakeParents) record(what string) { *p.did = append(*p.did, what+" "+p.name) }

func (p *fakeParents) Sync(context.Context, parent.Key) (time.Duration, error) {
	p.record("sync")
	return 0, nil
}

func (p *fakeParents) Start() int {
	p.record("start")
	p.started = true
	return 2
}

func (p *fakeParents) Started() bool { return p.started }

func (p *fakeParents) Pause() {
	p.record("pause")
	p.started = false
}

func (p *fakeParents) Stop() {
	p.record("stop")
	p.started, p.stopped = false, true
}

func (p *fakeParents) Health() parent.Health           { return p.health }
func (p *fakeParents) AnyFinalizer() bool              { return p.anyFinalizer }
func (p *fakeParents) SetOverlap(parent.Overlap)       { p.overlaps++ }
func (p *fakeParents) Defined(of schema.GroupResource) { p.record("defined " + of.String() + " for") }
func (p *fakeParents) Redefined(of schema.GroupResource) {
	p.record("redefined " + of.String() + " for")
}

func (p *fakeParents) SetMetadata(d *parent.Declaration) error {
	p.metadata = d
	return nil
}

// host is a Controller on a fake API server, whose parentControllers are fakes.
type host struct {
	*Controller
	t       *testing.T
	api     *fakeapi.Server
	objects fakeapi.Objects[v1alpha1.CompositeController]
	served  *fakediscovery.FakeDiscovery
	indexer cache.Indexer
	events  *record.FakeRecorder
	// parents are the newest fakes, and problem is the problem of the next one.
	parents *fakeParents
	problem *parent.Problem
	// did are the calls of fakes, and cleared the types of parents whose finalizers were removed.
	did, cleared []string
	clearErr     error
	// clearing is called when finalizers are removed, nil for nothing.
	clearing func()
	// defined are the resources that a CustomResourceDefinition defines.
	defined    sets.Set[string]
	definedErr error
}

func newHost(t *testing.T, cc *v1alpha1.CompositeController) *host {
	t.Helper()
	api := fakeapi.New(t, ccResource)
	client, err := versioned.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset()
	h := &host{
		t: t, api: api, objects: fakeapi.Of[v1alpha1.CompositeController](api, ccResource), served: kube.Discovery().(*fakediscovery.FakeDiscovery),
		indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), events: record.NewFakeRecorder(100),
	}
	h.Controller = &Controller{
		Config:  Config{Declarations: compositesIn(h.indexer, client), KubeClient: kube, Recorder: h.events, TargetSelector: labels.Everything()},
		running: map[types.UID]parentController{},
		states:  map[string]*state{},
	}
	h.standby = &standby{requests: h.standbyRequests, held: map[types.UID]heldWatches{}, ready: make(chan struct{})}
	h.Loop = controller.NewLoop(t.Context(), controller.Config[parent.Key]{Name: "test", Sync: h.syncHandler})
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		h.Loop.Run(ended, 0)
	})
	h.newParentController = func(config parent.Config) (parentController, *parent.Problem, error) {
		if h.problem != nil {
			return nil, h.problem, nil
		}
		h.parents = &fakeParents{name: fmt.Sprint("generation ", config.Declaration.Generation), did: &h.did}
		h.parents.record("new")
		return h.parents, nil, nil
	}
	h.removeFinalizers = func(_ context.Context, of schema.GroupVersionResource, name string) error {
		h.cleared = append(h.cleared, fmt.Sprintf("%s %s of %s", of.Version, of.GroupResource(), name))
		if h.clearing != nil {
			h.clearing()
		}
		return h.clearErr
	}
	h.isDefined = func(of schema.GroupResource) (bool, error) { return h.defined.Has(of.String()), h.definedErr }
	h.serves("example.com/v1", metav1.APIResource{Name: "things", Kind: "Thing", Namespaced: true}, metav1.APIResource{Name: "things/status"})
	h.serves("v1", metav1.APIResource{Name: "configmaps", Kind: "ConfigMap", Namespaced: true})
	h.objects.Create(cc)
	return h
}

// serves makes the API server serve resources.
func (h *host) serves(version string, resources ...metav1.APIResource) {
	h.served.Resources = append(h.served.Resources, &metav1.APIResourceList{GroupVersion: version, APIResources: resources})
}

// edit changes the CompositeController as a user does.
func (h *host) edit(change func(*v1alpha1.CompositeController)) { h.objects.Update("", "cc", change) }

// cc returns the CompositeController as the API server has it, nil if it is gone.
func (h *host) cc() *v1alpha1.CompositeController { return h.objects.Get("", "cc") }

// sync updates the cache, and syncs the CompositeController.
func (h *host) sync() (time.Duration, error) {
	h.t.Helper()
	var items []any
	for _, cc := range h.objects.List() {
		items = append(items, cc)
	}
	if err := h.indexer.Replace(items, ""); err != nil {
		h.t.Fatal(err)
	}
	return h.syncHandler(h.t.Context(), h.declarationKey("cc"))
}

// mustSync syncs without an error.
func (h *host) mustSync() time.Duration {
	h.t.Helper()
	after, err := h.sync()
	if err != nil {
		h.t.Fatal(err)
	}
	return after
}

// start hosts the CompositeController until its parents are synced.
func (h *host) start() {
	h.t.Helper()
	h.mustSync()
	h.parents.health.Synced = true
	h.mustSync()
	if !h.parents.started {
		h.t.Fatal("parents are not synced although the caches are filled")
	}
	h.did = nil
	h.takeEvents()
	h.api.TakeLog()
}

// reportedLongAgo lets the status report on hooks again.
func (h *host) reportedLongAgo() { h.state("cc").hooksReported = time.Time{} }

func (h *host) takeEvents() (events []string) {
	for {
		select {
		case event := <-h.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

func (h *host) wantDid(want ...string) {
	h.t.Helper()
	if !slices.Equal(h.did, want) {
		h.t.Errorf("the calls are %v, want %v", h.did, want)
	}
	h.did = nil
}

func (h *host) wantCleared(want ...string) {
	h.t.Helper()
	if !slices.Equal(h.cleared, want) {
		h.t.Errorf("finalizers were removed from %v, want %v", h.cleared, want)
	}
	h.cleared = nil
}

func (h *host) wantRequests(want ...string) {
	h.t.Helper()
	if requests, _ := h.api.TakeLog(); !slices.Equal(requests, want) {
		h.t.Errorf("the requests are %q, want %q", requests, want)
	}
}

func (h *host) wantEvents(want ...string) {
	h.t.Helper()
	if events := h.takeEvents(); !slices.Equal(events, want) {
		h.t.Errorf("the events are %q, want %q", events, want)
	}
}

func (h *host) wantReady(reason string) {
	h.t.Helper()
	if got := readyReasonOf(declared(h.cc())); got != reason {
		h.t.Errorf("the reason of Ready is %q, want %q", got, reason)
	}
}

// withFormer has a CompositeController record former parents.
func withFormer(cc *v1alpha1.CompositeController, resources ...string) *v1alpha1.CompositeController {
	for _, resource := range resources {
		cc.Status.FinalizedParents = append(cc.Status.FinalizedParents, v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: resource})
	}
	return cc
}

// withFinalizer has a CompositeController its own finalizer.
func withFinalizer(cc *v1alpha1.CompositeController) *v1alpha1.CompositeController {
	cc.Finalizers = append(cc.Finalizers, finalizer)
	return cc
}
