// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
)

var (
	appsResource        = v1.Resource("helloapps").WithVersion("v1")
	deploymentsResource = appsv1.SchemeGroupVersion.WithResource("deployments")
	servicesResource    = corev1.SchemeGroupVersion.WithResource("services")
)

// maxRequests within a second are a hot loop.
const maxRequests = 100

// apiServer makes two fake clientsets behave as one API server where the controller relies on it and fakes do not: UIDs,
// resourceVersions and their conflicts, generations, the fences of an apply, the status subresource, UID preconditions, and
// watches that are filtered by label. It writes down every request but lists and watches.
type apiServer struct {
	t    *testing.T
	apps *fake.Clientset
	kube *kubefake.Clientset

	mu       sync.Mutex
	version  int
	created  int
	requests []string
	events   []string
	fail     map[string][]error // of the next requests of this verb and resource; nil lets one through
	lose     map[string]error   // the answer of the next request of this verb and resource, which is done
	newest   *v1.HelloApp       // what reading it returns, where watches are served from the past
	lingers  bool               // what is deleted is shown by the watch until later
	second   time.Time          // in which inSecond requests were made
	inSecond int
	broken   bool // by a hot loop: every request fails from then on
}

func newAPIServer(t *testing.T, objects ...*v1.HelloApp) *apiServer {
	a := &apiServer{t: t, apps: fake.NewClientset(), kube: kubefake.NewClientset(), version: 1000, fail: map[string][]error{}, lose: map[string]error{}}
	a.apps.PrependReactor("*", "*", a.react)
	a.kube.PrependReactor("*", "*", a.react)
	a.kube.PrependWatchReactor("*", a.watch)
	for _, object := range objects {
		object.ResourceVersion = a.nextVersion()
		a.must(a.apps.Tracker().Create(appsResource, object, object.Namespace))
	}
	return a
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

func (a *apiServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "list" {
		return false, nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.second) >= time.Second {
		a.second, a.inSecond = now, 0
	}
	if a.inSecond++; a.inSecond > maxRequests && !a.broken {
		a.t.Errorf("a hot loop: %q", a.requests[max(len(a.requests)-6, 0):])
		a.broken = true
	}
	if a.broken {
		return true, nil, errors.New("this API server has broken down under a hot loop")
	}
	request := action.GetVerb() + " " + action.GetResource().Resource
	if errs := a.fail[request]; len(errs) > 0 {
		a.fail[request] = errs[1:]
		if errs[0] != nil {
			a.requests = append(a.requests, request+": "+errs[0].Error())
			return true, nil, errs[0]
		}
	}
	object, err := a.do(action)
	if lost := a.lose[request]; lost != nil {
		delete(a.lose, request)
		return true, nil, lost
	}
	return true, object, err
}

func (a *apiServer) do(action clienttesting.Action) (runtime.Object, error) {
	resource := action.GetResource()
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if event, ok := action.GetObject().(*corev1.Event); ok {
			a.events = append(a.events, fmt.Sprintf("event %s %s %q", event.Type, event.Reason, event.Message))
			return event, nil
		}
	case clienttesting.UpdateActionImpl:
		if app, ok := action.GetObject().(*v1.HelloApp); ok && action.GetSubresource() == "status" {
			a.requests = append(a.requests, describeStatus(app.Status))
			return a.updateStatus(app)
		}
	case clienttesting.GetActionImpl:
		a.requests = append(a.requests, "get "+resource.Resource)
		if a.newest != nil && resource == appsResource {
			return a.newest, nil
		}
		if resource == appsResource {
			return a.apps.Tracker().Get(resource, action.GetNamespace(), action.GetName())
		}
		return a.kube.Tracker().Get(resource, action.GetNamespace(), action.GetName())
	case clienttesting.DeleteActionImpl:
		uid := *action.GetDeleteOptions().Preconditions.UID
		a.requests = append(a.requests, fmt.Sprintf("delete %s if it is %s", resource.Resource, uid))
		return nil, a.delete(resource, action.GetNamespace(), action.GetName(), uid)
	case clienttesting.PatchActionImpl:
		if resource.Resource == "events" { // one of before, counted once more
			event := &corev1.Event{}
			err := json.Unmarshal(action.GetPatch(), event)
			a.events = append(a.events, fmt.Sprintf("event again %q", event.Message))
			return event, err
		}
		if action.GetPatchType() == types.ApplyPatchType && action.PatchOptions.FieldManager == FieldManager {
			return a.apply(action)
		}
	}
	a.t.Errorf("unexpected request: %v", action)
	return nil, errors.New("not served")
}

func (a *apiServer) apply(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	resource, namespace, name := action.GetResource(), action.GetNamespace(), action.GetName()
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(action.GetPatch(), &patch.Object); err != nil {
		return nil, err
	}
	version, uid := patch.GetResourceVersion(), patch.GetUID()
	force := action.PatchOptions.Force != nil && *action.PatchOptions.Force
	a.requests = append(a.requests, map[bool]string{true: "apply ", false: "create "}[force]+resource.Resource)
	// Neither is a field of the object that is managed.
	patch.SetResourceVersion("")
	patch.SetUID("")

	before, err := a.kube.Tracker().Get(resource, namespace, name)
	exists := err == nil
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return nil, err
	case exists && version != "" && version != asObject(before).GetResourceVersion():
		return nil, apierrors.NewConflict(resource.GroupResource(), name, errors.New("the object has been modified"))
	case uid != "" && (!exists || uid != asObject(before).GetUID()):
		return nil, apierrors.NewConflict(resource.GroupResource(), name, errors.New("the UID in the precondition is another one"))
	}
	if err := a.kube.Tracker().Apply(resource, patch, namespace, action.PatchOptions); err != nil {
		return nil, err
	}
	object, err := a.kube.Tracker().Get(resource, namespace, name)
	if err != nil {
		return nil, err
	}
	if !exists {
		a.created++
		asObject(object).SetUID(types.UID(fmt.Sprintf("uid-%s-%d", resource.Resource, a.created)))
	}
	a.update(resource, before, object)
	return object, nil
}

// update stores the object as the API server does: with what it fills in, and a new generation where the spec has changed.
func (a *apiServer) update(resource schema.GroupVersionResource, before, object runtime.Object) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		defaulted(deployment)
		if old, ok := before.(*appsv1.Deployment); !ok || old == nil || !equality.Semantic.DeepEqual(old.Spec, deployment.Spec) {
			deployment.Generation++
		}
	}
	if before != nil {
		without := func(object runtime.Object) runtime.Object {
			object = object.DeepCopyObject()
			asObject(object).SetManagedFields(nil)
			return object
		}
		if equality.Semantic.DeepEqual(without(before), without(object)) {
			return
		}
	}
	asObject(object).SetResourceVersion(a.nextVersion())
	a.must(a.kube.Tracker().Update(resource, object, asObject(object).GetNamespace()))
}

func asObject(object runtime.Object) metav1.Object { return object.(metav1.Object) }

func (a *apiServer) updateStatus(wanted *v1.HelloApp) (runtime.Object, error) {
	object, err := a.apps.Tracker().Get(appsResource, wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	app := object.(*v1.HelloApp)
	if wanted.ResourceVersion != app.ResourceVersion {
		return nil, apierrors.NewConflict(appsResource.GroupResource(), wanted.Name, errors.New("the object has been modified"))
	}
	app.Status, app.ResourceVersion = wanted.Status, a.nextVersion()
	return app, a.apps.Tracker().Update(appsResource, app, app.Namespace)
}

func (a *apiServer) delete(resource schema.GroupVersionResource, namespace, name string, uid types.UID) error {
	object, err := a.kube.Tracker().Get(resource, namespace, name)
	if err != nil {
		return err
	}
	if uid != asObject(object).GetUID() {
		return apierrors.NewConflict(resource.GroupResource(), name, errors.New("the UID in the precondition is another one"))
	}
	if a.lingers {
		return nil
	}
	return a.kube.Tracker().Delete(resource, namespace, name)
}

// watch shows what the selector selects: what loses its label is deleted to the watch.
func (a *apiServer) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	options := action.(clienttesting.WatchActionImpl).ListOptions
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return true, nil, err
	}
	all, err := a.kube.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
	shown := map[types.UID]bool{}
	return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
		event.Object = event.Object.DeepCopyObject() // the tracker's own one may come first, and informers trim what they get
		object := asObject(event.Object)
		before, selected := shown[object.GetUID()], selector.Matches(labels.Set(object.GetLabels()))
		delete(shown, object.GetUID())
		switch {
		case object.GetUID() == "" || !selected && !before:
			return event, false // the tracker shows an applied object before it is complete
		case !selected || event.Type == watch.Deleted:
			return watch.Event{Type: watch.Deleted, Object: event.Object}, true
		}
		shown[object.GetUID()] = true
		if before {
			return watch.Event{Type: watch.Modified, Object: event.Object}, true
		}
		return watch.Event{Type: watch.Added, Object: event.Object}, true
	}), err
}
