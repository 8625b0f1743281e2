// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
	"millwright.dev/pkg/generated/informers/externalversions"
)

var (
	setsResource       = v1alpha1.Resource("actionsets").WithVersion("v1alpha1")
	blueprintsResource = v1alpha1.Resource("blueprints").WithVersion("v1alpha1")
	configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")
	secretsResource    = corev1.SchemeGroupVersion.WithResource("secrets")
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
	namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// maxRequests within a second are a hot loop.
const maxRequests = 200

// apiServer makes fake clientsets behave as one API server where the controller relies on it and fakes do not: UIDs, resourceVersions
// and their conflicts, finalizers, and the status subresource. It writes down every request but lists and watches.
type apiServer struct {
	t       *testing.T
	sets    *fake.Clientset
	kube    *kubefake.Clientset
	dynamic *dynamicfake.FakeDynamicClient

	mu      sync.Mutex
	version int
	// posted are the names of the events that were posted, and dead is that none is any more.
	posted   map[string]bool
	dead     bool
	served   *metav1.APIResourceList
	requests []string
	events   []string
	// refuse is asked at each request, lose after it was done: an error is its answer.
	refuse, lose func(request string) error
	// object is the name of what the request is about.
	object string
	// limit refuses a status.
	limit func(*v1alpha1.ActionSetStatus) error
	// drops what is not in the CustomResourceDefinition.
	drops    func(*v1alpha1.ActionSetStatus)
	second   time.Time // in which inSecond requests were made
	inSecond int

	stop       func()
	controller *Controller
}

// inBubble runs a test on an API server with the ActionSet ns/s, if it is not nil, and the Blueprint bp.
func inBubble(t *testing.T, set *v1alpha1.ActionSet, blueprint *v1alpha1.Blueprint, test func(t *testing.T, a *apiServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &apiServer{
			t: t, sets: fake.NewClientset(), kube: kubefake.NewClientset(), dynamic: dynamicfake.NewSimpleDynamicClient(kubescheme.Scheme), version: 1000,
		}
		a.serve("actionsets", "actionsets/status", "blueprints", "profiles")
		for _, client := range []*clienttesting.Fake{&a.sets.Fake, &a.kube.Fake, &a.dynamic.Fake} {
			client.PrependReactor("*", "*", a.react)
		}
		namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
		a.must(a.kube.Tracker().Create(namespacesResource, namespace, ""))
		a.must(a.dynamic.Tracker().Create(namespacesResource, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"},
		}}, ""))
		if blueprint != nil {
			a.must(a.sets.Tracker().Create(blueprintsResource, blueprint, "ns"))
		}
		if set != nil {
			a.put(set)
		}
		defer a.end()
		test(t, a)
	})
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *apiServer) nextVersion() string {
	a.version++
	return strconv.Itoa(a.version)
}

// serve these resources of our group, and no others.
func (a *apiServer) serve(names ...string) {
	list := &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String()}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served = list
	a.kube.Lock()
	defer a.kube.Unlock()
	a.kube.Resources = []*metav1.APIResourceList{list}
}

// serves is called with the lock held.
func (a *apiServer) serves(name string) bool {
	return slices.ContainsFunc(a.served.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
}

// put is what a user does.
func (a *apiServer) put(set *v1alpha1.ActionSet) {
	set.ResourceVersion = a.nextVersion()
	a.must(a.sets.Tracker().Create(setsResource, set, "ns"))
}

// edit likewise.
func (a *apiServer) edit(change func(*v1alpha1.ActionSet)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	set := a.set().DeepCopy()
	change(set)
	set.ResourceVersion = a.nextVersion()
	a.must(a.store(set))
}

// deleted likewise.
func (a *apiServer) deleted() {
	a.edit(func(set *v1alpha1.ActionSet) {
		now := metav1.Now()
		set.DeletionTimestamp = &now
	})
}

// set is ns/s; nil if it is gone.
func (a *apiServer) set() *v1alpha1.ActionSet {
	object, err := a.sets.Tracker().Get(setsResource, "ns", "s")
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.must(err)
	return object.(*v1alpha1.ActionSet)
}

// store an ActionSet, or remove it if nothing keeps it.
func (a *apiServer) store(set *v1alpha1.ActionSet) error {
	if set.DeletionTimestamp != nil && len(set.Finalizers) == 0 {
		return a.sets.Tracker().Delete(setsResource, "ns", set.Name)
	}
	return a.sets.Tracker().Update(setsResource, set, "ns")
}

// count of objects that are there.
func (a *apiServer) count(resource schema.GroupVersionResource) int {
	tracker, kind := a.kube.Tracker(), "Secret"
	switch resource {
	case podsResource:
		kind = "Pod"
	case configMapsResource:
		tracker, kind = a.dynamic.Tracker(), "ConfigMap"
	}
	list, err := tracker.List(resource, resource.GroupVersion().WithKind(kind), "ns")
	a.must(err)
	return meta.LenList(list)
}

func (a *apiServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "list" || action.GetResource().Resource == "resource" { // the latter is discovery
		return false, nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	request := strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	if now := time.Now(); now.Sub(a.second) >= time.Second {
		a.second, a.inSecond = now, 0
	}
	if a.inSecond++; a.inSecond > maxRequests {
		a.t.Errorf("a hot loop: %q", a.requests[len(a.requests)-6:])
		return true, nil, errors.New("this API server has broken down under a hot loop")
	}
	a.requests = append(a.requests, request)
	if named, ok := action.(interface{ GetObject() runtime.Object }); ok {
		of, _ := meta.Accessor(named.GetObject())
		a.object = of.GetName()
	} else if named, ok := action.(interface{ GetName() string }); ok {
		a.object = named.GetName()
	}
	if a.refuse != nil {
		if err := a.refuse(request); err != nil {
			return true, nil, err
		}
	}
	handled, object, err := a.do(action)
	if a.lose != nil {
		if lost := a.lose(request); lost != nil {
			if !handled {
				a.t.Fatalf("%s is not done here", request)
			}
			return true, nil, lost
		}
	}
	return handled, object, err
}

func (a *apiServer) do(action clienttesting.Action) (handled bool, _ runtime.Object, _ error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		tracker := a.kube.Tracker()
		if pod, ok := action.GetObject().(*corev1.Pod); ok {
			pod.UID = types.UID("uid of " + pod.Name)
		}
		if secret, ok := action.GetObject().(*corev1.Secret); ok {
			secret.UID = types.UID(a.nextVersion())
		}
		if _, untyped := action.GetObject().(*unstructured.Unstructured); untyped {
			tracker = a.dynamic.Tracker()
		}
		if err := tracker.Create(action.GetResource(), action.GetObject(), action.GetNamespace()); err != nil {
			return true, nil, err
		}
		return true, action.GetObject(), nil
	case clienttesting.DeleteActionImpl:
		if wanted := action.GetDeleteOptions().Preconditions; wanted != nil {
			found, err := a.kube.Tracker().Get(action.GetResource(), action.GetNamespace(), action.GetName())
			if err == nil && found.(metav1.Object).GetUID() != *wanted.UID {
				return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), action.GetName(), errors.New("the UID in the precondition is another"))
			}
		}
		return true, nil, a.kube.Tracker().Delete(action.GetResource(), action.GetNamespace(), action.GetName())
	case clienttesting.UpdateActionImpl:
		wanted, ok := action.GetObject().(*v1alpha1.ActionSet)
		if !ok || action.GetSubresource() != "status" {
			return false, nil, nil
		}
		if !a.serves("actionsets/status") {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "put", setsResource.GroupResource(), "s", "404 page not found", 0, true)
		}
		if a.limit != nil {
			if err := a.limit(wanted.Status); err != nil {
				return true, nil, err
			}
		}
		object, err := a.change(wanted.ResourceVersion, func(set *v1alpha1.ActionSet) {
			set.Status = stored(a.t, wanted.Status)
			if a.drops != nil {
				a.drops(set.Status)
			}
		})
		return true, object, err
	case clienttesting.PatchActionImpl:
		if action.GetResource() != setsResource {
			return false, nil, nil
		}
		var patch struct{ Metadata metav1.ObjectMeta }
		a.must(json.Unmarshal(action.GetPatch(), &patch))
		object, err := a.change(patch.Metadata.ResourceVersion, func(set *v1alpha1.ActionSet) { set.Finalizers = patch.Metadata.Finalizers })
		return true, object, err
	}
	return false, nil, nil
}

// change the ActionSet, if its version is this one.
func (a *apiServer) change(version string, change func(*v1alpha1.ActionSet)) (runtime.Object, error) {
	set := a.set()
	switch {
	case set == nil:
		return nil, apierrors.NewNotFound(setsResource.GroupResource(), "s")
	case version != set.ResourceVersion:
		return nil, apierrors.NewConflict(setsResource.GroupResource(), "s", errors.New("the object has been modified"))
	}
	before := set
	set = set.DeepCopy()
	change(set)
	if equality.Semantic.DeepEqual(before, set) {
		return set, nil
	}
	set.ResourceVersion = a.nextVersion()
	return set, a.store(set)
}

// operate starts another process.
func (a *apiServer) operate() { a.operateWith() }

// standBy starts a process that does not lead.
func (a *apiServer) standBy() {
	ctx, cancel := context.WithCancel(context.Background())
	factory, _ := a.build(ctx)
	factory.StartWithContext(ctx)
	a.stop = func() {
		cancel()
		a.controller.Run(ctx, 1)
		factory.Shutdown()
	}
	synctest.Wait()
}

func (a *apiServer) operateWith(options ...externalversions.SharedInformerOption) {
	logger := ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	factory, c := a.build(ctx, options...)
	factory.StartWithContext(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx, 4) })
	a.stop = func() {
		cancel()
		wg.Wait()
		factory.Shutdown()
	}
	synctest.Wait()
}

func (a *apiServer) build(ctx context.Context, options ...externalversions.SharedInformerOption) (externalversions.SharedInformerFactory, *Controller) {
	factory := externalversions.NewSharedInformerFactoryWithOptions(a.sets, 0, options...)
	cr := factory.Cr().V1alpha1()
	c, err := newController(ctx, Config{
		Client: a.sets, KubeClient: a.kube, ActionSets: cr.ActionSets(), Blueprints: cr.Blueprints(), Recorder: &recorder{FakeRecorder: record.FakeRecorder{}, a: a},
	}, a.dynamic, mapper{meta.NewDefaultRESTMapper(nil)})
	a.must(err)
	a.controller = c
	return factory, c
}

// end of the process.
func (a *apiServer) end() {
	if a.stop != nil {
		a.stop()
	}
	a.stop = nil
}

// isWell answers all requests from now on.
func (a *apiServer) isWell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse, a.lose = nil, nil
}

// settles lets an hour pass.
func (a *apiServer) settles() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

// took are the requests since it was asked before.
func (a *apiServer) took() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// said are the events likewise.
func (a *apiServer) said() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.events
	a.events = nil
	return events
}

func (a *apiServer) wants(what string, got []string, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// states of the ActionSet.
func (a *apiServer) states() string {
	set := a.set()
	switch {
	case set == nil:
		return "gone"
	case set.Status == nil:
		return "no status"
	}
	return describeStatus(set.Status)
}

// recorder writes events down.
type recorder struct {
	record.FakeRecorder
	a *apiServer
}

func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	of, _ := meta.Accessor(object)
	name := fmt.Sprint(of.GetName(), annotations) // an ActionSet and a Blueprint of one name are in one namespace
	r.a.mu.Lock()
	posted := r.a.posted[name]
	if r.a.posted == nil {
		r.a.posted = map[string]bool{}
	}
	r.a.posted[name] = !r.a.dead
	lost := r.a.dead
	r.a.mu.Unlock()
	if !posted && !lost {
		r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
	}
}

func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	of, _ := meta.Accessor(object)
	r.a.events = append(r.a.events, fmt.Sprintf("%s: %s %s: %s", of.GetName(), eventType, reason, message))
}

// mapper knows ConfigMaps.
type mapper struct{ *meta.DefaultRESTMapper }

func (mapper) Reset() {}

func (mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{Resource: configMapsResource, GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Scope: meta.RESTScopeNamespace}, nil
}

// makes is a phase that creates the ConfigMap of that name.
func makes(name string) v1alpha1.BlueprintPhase {
	return v1alpha1.BlueprintPhase{Func: "KubeOps", Name: name, Args: rawArgs(fmt.Sprintf(
		`{"operation":"create","namespace":"ns","spec":"{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}"}`, name))}
}

func outage(request string) error {
	return apierrors.NewInternalError(fmt.Errorf("%s: the API server has failed", request))
}

// nth refuses the request of that number.
func nth(n int) func(string) error {
	return func(request string) error {
		if n--; n == 0 {
			return outage(request)
		}
		return nil
	}
}
