// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/controller"
)

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// apiServer makes two fakes behave as one API server where the controller relies on it and fakes do not: resourceVersions and their
// conflicts, and watches that are filtered by label. It writes down every request but lists and watches.
type apiServer struct {
	t        *testing.T
	kube     *kubefake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient // of APIServices, and of the Secret for whoever watches it
	recorder *record.FakeRecorder

	mu       sync.Mutex
	version  int
	requests []string
	watches  []string
	fail     map[string][]error // of the next requests of this verb and resource; nil lets one through
	changed  func()             // called after each write, unless nil

	lifetimes certs.Lifetimes // of what a controller issues
	serving   types.NamespacedName
	logs      func() string // of the controller that was started last
}

func newAPIServer(t *testing.T, apiServices ...*unstructured.Unstructured) *apiServer {
	a := &apiServer{
		t: t, kube: kubefake.NewClientset(), recorder: record.NewFakeRecorder(10_000), fail: map[string][]error{}, version: 100, lifetimes: certs.DefaultLifetimes, serving: serving,
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{APIServices: "APIServiceList", secrets: "SecretList"}),
	}
	a.kube.PrependReactor("*", "secrets", a.react)
	a.dynamic.PrependReactor("*", "apiservices", a.react)
	a.dynamic.PrependWatchReactor("*", a.watch)
	for _, object := range apiServices {
		a.applyAPIService(object)
	}
	return a
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Error(err)
	}
}

func (a *apiServer) nextVersion() string {
	a.version++
	return strconv.Itoa(a.version)
}

func (a *apiServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "list" {
		return false, nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	request := action.GetVerb() + " " + action.GetResource().Resource
	a.requests = append(a.requests, request)
	if errs := a.fail[request]; len(errs) > 0 {
		a.fail[request] = errs[1:]
		if errs[0] != nil {
			return true, nil, errs[0]
		}
	}
	object, err := a.do(action)
	if err == nil && action.GetVerb() != "get" && a.changed != nil {
		a.changed()
	}
	return true, object, err
}

func (a *apiServer) do(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		return a.kube.Tracker().Get(secrets, action.GetNamespace(), action.GetName())
	case clienttesting.CreateActionImpl:
		return a.createSecret(action.GetObject().(*corev1.Secret))
	case clienttesting.UpdateActionImpl:
		return a.updateSecret(action.GetObject().(*corev1.Secret))
	case clienttesting.PatchActionImpl:
		return a.patchAPIService(action.GetName(), action.GetPatch())
	}
	return nil, fmt.Errorf("nobody should do this: %v", action)
}

func (a *apiServer) createSecret(created *corev1.Secret) (runtime.Object, error) {
	created = created.DeepCopy()
	created.ResourceVersion = a.nextVersion()
	created.UID = types.UID("secret-" + created.ResourceVersion)
	if err := a.kube.Tracker().Create(secrets, created, created.Namespace); err != nil {
		return nil, err
	}
	return created, a.dynamic.Tracker().Create(secrets, shown(created), created.Namespace)
}

func (a *apiServer) updateSecret(updated *corev1.Secret) (runtime.Object, error) {
	existing, err := a.kube.Tracker().Get(secrets, updated.Namespace, updated.Name)
	if err != nil {
		return nil, err
	}
	if existing.(*corev1.Secret).ResourceVersion != updated.ResourceVersion {
		return nil, apierrors.NewConflict(secrets.GroupResource(), updated.Name, errors.New("old version"))
	}
	updated = updated.DeepCopy()
	updated.ResourceVersion = a.nextVersion()
	if err := a.kube.Tracker().Update(secrets, updated, updated.Namespace); err != nil {
		return nil, err
	}
	return updated, a.dynamic.Tracker().Update(secrets, shown(updated), updated.Namespace)
}

// shown is a Secret as watches show it.
func shown(object *corev1.Secret) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"namespace": object.Namespace, "name": object.Name, "resourceVersion": object.ResourceVersion},
	}}
}

// patchAPIService knows as much of JSON patches as there is in ours.
func (a *apiServer) patchAPIService(name string, patch []byte) (runtime.Object, error) {
	patched := a.apiService(name)
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, err
	}
	for _, operation := range operations {
		field, ofSpec := strings.CutPrefix(operation.Path, "/spec/")
		switch {
		case operation.Op == "add" && operation.Path == "/metadata/resourceVersion":
			if operation.Value != patched.GetResourceVersion() {
				return nil, apierrors.NewConflict(APIServices.GroupResource(), name, errors.New("old version"))
			}
		case operation.Op == "add" && ofSpec:
			a.must(unstructured.SetNestedField(patched.Object, operation.Value, "spec", field))
		default:
			return nil, fmt.Errorf("%s %s of %s", operation.Op, operation.Path, name)
		}
	}
	spec := patched.Object["spec"].(map[string]any)
	if spec["insecureSkipTLSVerify"] == true && spec["caBundle"] != nil {
		return nil, apierrors.NewBadRequest("insecureSkipTLSVerify must not be true if caBundle is present")
	}
	patched.SetResourceVersion(a.nextVersion())
	return patched, a.dynamic.Tracker().Update(APIServices, patched, "")
}

func (a *apiServer) apiService(name string) *unstructured.Unstructured {
	object, err := a.dynamic.Tracker().Get(APIServices, "", name)
	a.must(err)
	return object.(*unstructured.Unstructured).DeepCopy()
}

// watch is filtered by label, as fakes are not.
func (a *apiServer) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	restrictions := action.(clienttesting.WatchAction).GetWatchRestrictions()
	a.mu.Lock()
	a.watches = append(a.watches, fmt.Sprintf("%s %s %s%s", action.GetResource().Resource, action.GetNamespace(), restrictions.Labels, restrictions.Fields))
	a.mu.Unlock()
	all, err := a.dynamic.Tracker().Watch(action.GetResource(), action.GetNamespace())
	return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
		object, ok := event.Object.(metav1.Object)
		return event, !ok || restrictions.Labels.Matches(labels.Set(object.GetLabels()))
	}), err
}

// farmNamespace as the controller is given it: what is the default need not be given.
func (a *apiServer) farmNamespace() string {
	if a.serving == serving {
		return ""
	}
	return a.serving.Namespace
}

// start runs a controller until the test ends.
func (a *apiServer) start(namespace string) {
	logger := ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	a.logs = func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	ctx, stop := context.WithCancel(klog.NewContext(a.t.Context(), logger))
	var factories []dynamicinformer.DynamicSharedInformerFactory
	running, err := New(ctx, Config{
		KubeClient: a.kube, Dynamic: a.dynamic, Recorder: a.recorder, Namespace: namespace, FarmNamespace: a.farmNamespace(),
		Select: func(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
			factories = append(factories, dynamicinformer.NewFilteredDynamicSharedInformerFactory(a.dynamic, 0, namespace, options))
			return factories[len(factories)-1].ForResource(resource).Informer()
		},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if c, ok := running.(*Controller); ok {
		c.lifetimes = a.lifetimes
	}
	for _, factory := range factories {
		factory.Start(ctx.Done())
	}
	ended := make(chan struct{})
	go func() { defer close(ended); running.Run(ctx, 4) }()
	a.t.Cleanup(func() {
		stop()
		<-ended
		for _, factory := range factories {
			factory.Shutdown()
		}
	})
}

var _ controller.Controller = &Controller{}

// took returns what was asked for since it was last called, and the events, once all is quiet.
func (a *apiServer) took() (requests, events []string) {
	a.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, a.requests = a.requests, nil
	for {
		select {
		case event := <-a.recorder.Events:
			events = append(events, event)
		default:
			return requests, events
		}
	}
}

// writes among requests.
func writes(requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(request string) bool { return strings.HasPrefix(request, "get ") })
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }
