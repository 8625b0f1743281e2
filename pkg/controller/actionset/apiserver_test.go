// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/fakeapi"
)

var (
	setsResource       = fakeapi.Custom(v1alpha1.Resource("actionsets").WithVersion("v1alpha1"), &v1alpha1.ActionSet{})
	blueprintsResource = fakeapi.Resource{GroupVersionResource: v1alpha1.Resource("blueprints").WithVersion("v1alpha1"), Object: &v1alpha1.Blueprint{}}
	profilesResource   = fakeapi.Resource{GroupVersionResource: v1alpha1.Resource("profiles").WithVersion("v1alpha1"), Object: &v1alpha1.Profile{}}
	// podsResource is without graceful deletion: there is no kubelet.
	podsResource       = fakeapi.Resource{GroupVersionResource: fakeapi.Pods.GroupVersionResource, Object: fakeapi.Pods.Object, Status: true}
	configMapsResource = fakeapi.ConfigMaps
	secretsResource    = fakeapi.Secrets
)

// apiServer is the API server with ActionSets in the namespace ns, Blueprints, and what their phases make.
type apiServer struct {
	*fakeapi.Server
	t          *testing.T
	sets       fakeapi.Objects[v1alpha1.ActionSet]
	blueprints fakeapi.Objects[v1alpha1.Blueprint]
	secrets    fakeapi.Objects[corev1.Secret]
	namespaces fakeapi.Objects[corev1.Namespace]

	mu sync.Mutex
	// posted are the names of the events that were posted. If dead is true, no further event is posted.
	posted map[string]bool
	dead   bool
	events []string
	// refuse is called before each request, lose after it was done: an error is its answer.
	refuse, lose func(request string) error
	// object is the name of what the request is about.
	object string
	// limit refuses a status.
	limit func(*v1alpha1.ActionSetStatus) error
	// wrap is put around the requests of processes that start, if it is not nil.
	wrap transport.WrapperFunc

	stop       func()
	controller *Controller
}

// inBubble runs a test on an API server with the ActionSet ns/s, if it is not nil, and the Blueprint bp.
func inBubble(t *testing.T, set *v1alpha1.ActionSet, blueprint *v1alpha1.Blueprint, test func(t *testing.T, a *apiServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(t, setsResource, blueprintsResource, profilesResource, podsResource, configMapsResource, secretsResource,
			fakeapi.Namespaces, fakeapi.Deployments)
		a := &apiServer{
			Server: server, t: t,
			sets: fakeapi.Of[v1alpha1.ActionSet](server, setsResource), blueprints: fakeapi.Of[v1alpha1.Blueprint](server, blueprintsResource),
			secrets: fakeapi.Of[corev1.Secret](server, secretsResource), namespaces: fakeapi.Of[corev1.Namespace](server, fakeapi.Namespaces),
		}
		a.Log((*fakeapi.Request).String)
		a.FailIf(a.fail)
		a.LoseIf(func(r *fakeapi.Request) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.lose == nil {
				return nil
			}
			return a.lose(r.String())
		})
		a.namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
		if blueprint != nil {
			a.blueprints.Create(blueprint)
		}
		if set != nil {
			a.create(set)
		}
		defer a.stopProcess()
		test(t, a)
	})
}

// fail returns the error in whose place a request is not done.
func (a *apiServer) fail(r *fakeapi.Request) error {
	if r.Verb == "list" || r.Verb == "watch" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.object = r.Name
	if a.refuse != nil {
		if err := a.refuse(r.String()); err != nil {
			return err
		}
	}
	if a.limit != nil && r.String() == "update actionsets/status" {
		return a.limit(fakeapi.Decode[v1alpha1.ActionSet](r).Status)
	}
	return nil
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// serveStatus decides whether the status subresource is served.
func (a *apiServer) serveStatus(served bool) {
	resource := setsResource
	resource.Status = served
	a.Register(resource)
}

// dropFields makes the server keep nothing of a status that is not in its CustomResourceDefinition.
func (a *apiServer) dropFields(fields func(*v1alpha1.ActionSetStatus)) {
	resource := setsResource
	resource.Admit = fakeapi.Admit(func(_, set *v1alpha1.ActionSet) error {
		if set.Status != nil {
			fields(set.Status)
		}
		return nil
	})
	a.Register(resource)
}

// create creates an ActionSet, as a user.
func (a *apiServer) create(set *v1alpha1.ActionSet) {
	set.Namespace = "ns"
	a.sets.Create(set)
}

// edit changes the ActionSet, as a user.
func (a *apiServer) edit(change func(*v1alpha1.ActionSet)) { a.sets.Update("ns", "s", change) }

// delete deletes the ActionSet, as a user.
func (a *apiServer) delete() {
	a.edit(func(set *v1alpha1.ActionSet) {
		now := metav1.Now()
		set.DeletionTimestamp = &now
	})
}

// set returns ns/s; nil if it is gone.
func (a *apiServer) set() *v1alpha1.ActionSet { return a.sets.Get("ns", "s") }

// count returns the number of objects that exist.
func (a *apiServer) count(resource fakeapi.Resource) int {
	return len(fakeapi.Of[unstructured.Unstructured](a.Server, resource).List())
}

// startProcess starts another process.
func (a *apiServer) startProcess() {
	ctx, cancel := context.WithCancel(a.logged())
	factory, c := a.build(ctx)
	factory.StartWithContext(ctx)
	a.run(ctx, cancel, factory, c, 4)
}

// startStandby starts a process that does not lead before lead is called.
func (a *apiServer) startStandby() (lead func(workers int)) {
	ctx, cancel := context.WithCancel(a.logged())
	factory, c := a.build(ctx)
	factory.StartWithContext(ctx)
	a.stop = func() {
		cancel()
		c.Run(ctx, 1)
		factory.Shutdown()
	}
	synctest.Wait()
	return func(workers int) { a.run(ctx, cancel, factory, c, workers) }
}

func (a *apiServer) logged() context.Context {
	return klog.NewContext(context.Background(), ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true))))
}

func (a *apiServer) run(ctx context.Context, cancel func(), factory externalversions.SharedInformerFactory, c *Controller, workers int) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx, workers) })
	a.stop = func() {
		cancel()
		wg.Wait()
		factory.Shutdown()
	}
	synctest.Wait()
}

func (a *apiServer) build(ctx context.Context) (externalversions.SharedInformerFactory, *Controller) {
	config := a.Config()
	if a.wrap != nil {
		config.Wrap(a.wrap)
	}
	client, kube := versioned.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config)
	factory := externalversions.NewSharedInformerFactory(client, 0)
	cr := factory.Cr().V1alpha1()
	c, err := New(ctx, Config{
		Client: client, KubeClient: kube, RESTConfig: config, ActionSets: cr.ActionSets(), Blueprints: cr.Blueprints(),
		Recorder: &recorder{FakeRecorder: record.FakeRecorder{}, a: a},
	})
	a.must(err)
	a.controller = c
	return factory, c
}

// stopProcess ends the process.
func (a *apiServer) stopProcess() {
	if a.stop != nil {
		a.stop()
	}
	a.stop = nil
}

// answerAll answers all requests from now on.
func (a *apiServer) answerAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse, a.lose = nil, nil
}

// waitHour lets an hour pass: all that happens has happened.
func (a *apiServer) waitHour() { a.wait(time.Hour) }

// waitInOutage lets five minutes pass, in which most requests are refused: a longer outage only repeats them, which takes time.
func (a *apiServer) waitInOutage() { a.wait(5 * time.Minute) }

func (a *apiServer) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// takeRequests returns the requests since the last call.
func (a *apiServer) takeRequests() []string {
	synctest.Wait()
	requests, _ := a.TakeLog()
	return requests
}

// takeEvents returns the events since the last call.
func (a *apiServer) takeEvents() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.events
	a.events = nil
	return events
}

func (a *apiServer) wantEqual(what string, got []string, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// states returns the states of the ActionSet.
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

// recorder records events.
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

// configMapPhase returns a phase that creates the ConfigMap of that name.
func configMapPhase(name string) v1alpha1.BlueprintPhase {
	return v1alpha1.BlueprintPhase{Func: "KubeOps", Name: name, Args: creating(name)}
}

// creating returns the arguments of a KubeOps phase that creates the ConfigMap of that name, which may be a template.
func creating(name string) *runtime.RawExtension {
	return rawArgs(fmt.Sprintf(`{"operation":"create","namespace":"ns","spec":%q}`, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}"))
}

// waitFor waits until a ConfigMap has "true" as ready.
func waitFor(configMap string) v1alpha1.BlueprintPhase {
	return v1alpha1.BlueprintPhase{Func: "WaitV2", Name: "long", Args: rawArgs(`{"timeout":"1h","conditions":{"anyOf":[` +
		`{"condition":"{{ .data.ready }}","objectReference":{"apiVersion":"v1","resource":"configmaps","namespace":"ns","name":"` + configMap + `"}}]}}`)}
}

// createConfigMap creates a ConfigMap with this value of ready.
func (a *apiServer) createConfigMap(name, ready string) fakeapi.Objects[corev1.ConfigMap] {
	configMaps := fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource)
	configMaps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"ready": ready}})
	return configMaps
}

func outage(request string) error {
	return apierrors.NewInternalError(fmt.Errorf("%s: the API server has failed", request))
}

// nth fails the n-th request.
func nth(n int) func(string) error {
	return func(request string) error {
		if n--; n == 0 {
			return outage(request)
		}
		return nil
	}
}
