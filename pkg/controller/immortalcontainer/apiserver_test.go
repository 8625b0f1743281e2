// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
)

var (
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
	containersResource = v1alpha1.Resource("immortalcontainers").WithVersion("v1alpha1")
)

// maxRequests within a second are a hot loop.
const maxRequests = 100

// apiServer makes two fake clientsets behave as one API server where the controller relies on it and fakes do not: UIDs,
// resourceVersions and their conflicts, generations, the status subresource, graceful deletion, UID preconditions, and
// watches that are filtered by label. It writes down every request but lists and watches.
type apiServer struct {
	t          *testing.T
	containers *fake.Clientset
	kube       *kubefake.Clientset

	mu       sync.Mutex
	version  int
	created  int     // Pods, ever
	starts   []int64 // of the Pods that were created, in order
	requests []string
	events   []string
	fail     map[string][]error // of the next requests of this verb and resource; nil lets one through
	second   time.Time          // in which inSecond requests were made
	inSecond int
	broken   bool                     // by a hot loop: every request fails from then on
	gates    map[string]chan struct{} // of the watch of a resource that is frozen: each event needs one token
	lose     map[string]error         // the answer of the next request of this verb and resource, which is done
}

func newAPIServer(t *testing.T, objects ...*v1alpha1.ImmortalContainer) *apiServer {
	a := &apiServer{
		t: t, containers: fake.NewClientset(), kube: kubefake.NewClientset(), version: 1000,
		fail: map[string][]error{}, lose: map[string]error{},
	}
	a.containers.PrependReactor("*", "*", a.react)
	a.kube.PrependReactor("*", "*", a.react)
	a.kube.PrependWatchReactor("pods", a.watchPods)
	a.containers.PrependWatchReactor("*", a.watchContainers)
	for _, object := range objects {
		object.ResourceVersion = a.nextVersion()
		a.must(a.containers.Tracker().Create(containersResource, object, object.Namespace))
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
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		switch object := action.GetObject().(type) {
		case *corev1.Event:
			a.events = append(a.events, fmt.Sprintf("event %s %s %q", object.Type, object.Reason, object.Message))
			return object, nil
		case *corev1.Pod:
			a.requests = append(a.requests, "create Pod "+object.Name+", start "+object.Annotations[AnnotationStart])
			return a.createPod(object)
		}
	case clienttesting.UpdateActionImpl:
		if container, ok := action.GetObject().(*v1alpha1.ImmortalContainer); ok && action.GetSubresource() == "status" {
			a.requests = append(a.requests, describeStatus(container.Status))
			return a.updateStatus(container)
		}
	case clienttesting.GetActionImpl:
		if action.GetResource() == containersResource {
			a.requests = append(a.requests, "get ImmortalContainer "+action.GetName())
			return a.containers.Tracker().Get(containersResource, action.GetNamespace(), action.GetName())
		}
		a.requests = append(a.requests, "get Pod "+action.GetName())
		return a.kube.Tracker().Get(podsResource, action.GetNamespace(), action.GetName())
	case clienttesting.DeleteActionImpl:
		line, uid := "delete Pod "+action.GetName(), types.UID("")
		if p := action.GetDeleteOptions().Preconditions; p != nil && p.UID != nil {
			uid = *p.UID
			line += " if it is " + string(uid)
		}
		if grace := action.GetDeleteOptions().GracePeriodSeconds; grace != nil {
			line += fmt.Sprintf(" within %d seconds", *grace)
		}
		a.requests = append(a.requests, line)
		return nil, a.deletePod(action.GetNamespace(), action.GetName(), uid)
	case clienttesting.PatchActionImpl:
		a.requests = append(a.requests, "patch Pod "+action.GetName()+" "+string(action.GetPatch()))
		return a.patchPod(action)
	}
	a.t.Errorf("unexpected request: %v", action)
	return nil, errors.New("not served")
}

func (a *apiServer) createPod(pod *corev1.Pod) (runtime.Object, error) {
	pod = pod.DeepCopy()
	if pod.UID == "" {
		pod.UID = types.UID(fmt.Sprint("uid-pod-", a.created+1))
	}
	pod.CreationTimestamp, pod.ResourceVersion = metav1.Now(), a.nextVersion()
	pod.Status.Phase = corev1.PodPending
	if err := a.kube.Tracker().Create(podsResource, pod, pod.Namespace); err != nil {
		return nil, err
	}
	a.created++
	a.starts = append(a.starts, startOf(pod))
	return pod, nil
}

func (a *apiServer) updateStatus(wanted *v1alpha1.ImmortalContainer) (runtime.Object, error) {
	object, err := a.containers.Tracker().Get(containersResource, wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	container := object.(*v1alpha1.ImmortalContainer)
	if wanted.ResourceVersion != container.ResourceVersion {
		return nil, apierrors.NewConflict(containersResource.GroupResource(), wanted.Name, errors.New("the object has been modified"))
	}
	container.Status, container.ResourceVersion = wanted.Status, a.nextVersion()
	return container, a.containers.Tracker().Update(containersResource, container, container.Namespace)
}

func (a *apiServer) deletePod(namespace, name string, uid types.UID) error {
	object, err := a.kube.Tracker().Get(podsResource, namespace, name)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	if uid != "" && uid != pod.UID {
		return apierrors.NewConflict(podsResource.GroupResource(), name, errors.New("the UID in the precondition is another one"))
	}
	grace := int64(30)
	if finished(pod) {
		grace = 0
	}
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = timeAt(time.Now().Add(time.Duration(grace) * time.Second))
		pod.DeletionGracePeriodSeconds = ptr.To(grace)
		a.updatePod(pod)
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		return a.kube.Tracker().Delete(podsResource, namespace, name)
	}
	return nil
}

func (a *apiServer) updatePod(pod *corev1.Pod) {
	pod.ResourceVersion = a.nextVersion()
	a.must(a.kube.Tracker().Update(podsResource, pod, pod.Namespace))
}

func (a *apiServer) patchPod(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	object, err := a.kube.Tracker().Get(podsResource, action.GetNamespace(), action.GetName())
	if err != nil {
		return nil, err
	}
	pod := object.(*corev1.Pod)
	uid, version := pod.UID, pod.ResourceVersion
	if err := json.Unmarshal(action.GetPatch(), pod); err != nil {
		return nil, err
	}
	if pod.UID != uid || pod.ResourceVersion != version {
		return nil, apierrors.NewConflict(podsResource.GroupResource(), pod.Name, errors.New("the precondition does not hold"))
	}
	a.updatePod(pod)
	return pod, nil
}

// watchPods shows what the selector selects: a Pod that loses its label is deleted to the watch, in its last state that
// was selected.
func (a *apiServer) watchPods(action clienttesting.Action) (bool, watch.Interface, error) {
	options := action.(clienttesting.WatchActionImpl).ListOptions
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return true, nil, err
	}
	all, err := a.kube.Tracker().Watch(podsResource, action.GetNamespace(), options)
	shown := map[types.UID]*corev1.Pod{}
	return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
		a.pass("pods")
		pod := event.Object.(*corev1.Pod).DeepCopy() // the tracker's own one may come first, and informers trim what they get
		before, selected := shown[pod.UID], selector.Matches(labels.Set(pod.Labels))
		delete(shown, pod.UID)
		switch {
		case !selected && before == nil:
			return event, false
		case !selected || event.Type == watch.Deleted:
			if !selected {
				before.ResourceVersion = pod.ResourceVersion
				pod = before
			}
			return watch.Event{Type: watch.Deleted, Object: pod}, true
		}
		shown[pod.UID] = pod.DeepCopy()
		if before == nil {
			return watch.Event{Type: watch.Added, Object: pod}, true
		}
		return watch.Event{Type: watch.Modified, Object: pod}, true
	}), err
}

func (a *apiServer) watchContainers(action clienttesting.Action) (bool, watch.Interface, error) {
	all, err := a.containers.Tracker().Watch(containersResource, action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
	return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
		a.pass("immortalcontainers")
		event.Object = event.Object.DeepCopyObject()
		return event, true
	}), err
}

// freeze holds back the events of both watches.
func (a *apiServer) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates = map[string]chan struct{}{"pods": make(chan struct{}), "immortalcontainers": make(chan struct{})}
}

// release lets the next event of the resource through, and waits until it had its effects.
func (a *apiServer) release(resource string) {
	synctest.Wait()
	select {
	case a.gates[resource] <- struct{}{}:
	default:
		a.t.Errorf("no event of %s is held back", resource)
	}
	synctest.Wait()
}

func (a *apiServer) thaw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gate := range a.gates {
		close(gate)
	}
	a.gates = nil
}

func (a *apiServer) pass(resource string) {
	a.mu.Lock()
	gate := a.gates[resource]
	a.mu.Unlock()
	if gate != nil {
		<-gate
	}
}
