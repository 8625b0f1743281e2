// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/fakeapi"
)

// apiServer is the API server with ImmortalContainers and Pods.
type apiServer struct {
	*fakeapi.Server
	t          *testing.T
	containers fakeapi.Objects[v1alpha1.ImmortalContainer]
	pods       fakeapi.Objects[corev1.Pod]

	mu     sync.Mutex
	starts []int64 // of the Pods that the controller created, in order
}

var (
	containers = fakeapi.Custom(v1alpha1.Resource("immortalcontainers").WithVersion("v1alpha1"), &v1alpha1.ImmortalContainer{})
	watched    = map[string]schema.GroupVersionResource{"pods": fakeapi.Pods.GroupVersionResource, "immortalcontainers": containers.GroupVersionResource}
)

func newAPIServer(t *testing.T, objects ...*v1alpha1.ImmortalContainer) *apiServer {
	server := fakeapi.New(t, containers, fakeapi.Pods)
	a := &apiServer{
		Server: server, t: t,
		containers: fakeapi.Of[v1alpha1.ImmortalContainer](server, containers),
		pods:       fakeapi.Of[corev1.Pod](server, fakeapi.Pods),
	}
	a.Log(requestText)
	a.OnWrite(func(r *fakeapi.Request) {
		if r.Verb == "create" {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.starts = append(a.starts, startOf(fakeapi.As[corev1.Pod](r.After)))
		}
	})
	for _, object := range objects {
		a.containers.Create(object)
	}
	return a
}

// requestText is the request in a line.
func requestText(r *fakeapi.Request) string {
	switch {
	case r.Scripted != nil:
		return r.Verb + " " + r.Resource.Resource + ": " + r.Scripted.Error()
	case r.Verb == "create":
		return "create Pod " + r.Name + ", start " + r.Object().GetAnnotations()[AnnotationStart]
	case r.Verb == "update":
		return describeStatus(fakeapi.Decode[v1alpha1.ImmortalContainer](r).Status)
	case r.Verb == "get" && r.Resource == containers.GroupVersionResource:
		return "get ImmortalContainer " + r.Name
	case r.Verb == "patch":
		return "patch Pod " + r.Name + " " + string(r.Body)
	case r.Verb == "delete":
		line, options := "delete Pod "+r.Name, fakeapi.Decode[metav1.DeleteOptions](r)
		if p := options.Preconditions; p != nil && p.UID != nil {
			line += " if it is " + string(*p.UID)
		}
		if grace := options.GracePeriodSeconds; grace != nil {
			line += fmt.Sprintf(" within %d seconds", *grace)
		}
		return line
	}
	return r.Verb + " Pod " + r.Name
}

// release lets the next event of the resource through, and waits until it had its effects.
func (a *apiServer) release(resource string) {
	synctest.Wait()
	if !a.Release(watched[resource]) {
		a.t.Errorf("no event of %s is held back", resource)
	}
	synctest.Wait()
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// What users, the kubelet and other controllers do; none of it is logged as a request.

// edit is a user's change of default/x.
func (a *apiServer) edit(change func(*v1alpha1.ImmortalContainer)) {
	a.containers.Update("default", "x", change)
}

// podBecomes changes the Pod of default/x, as the kubelet does or who else may; nothing where there is none.
func (a *apiServer) podBecomes(changes ...podOption) {
	if a.pod() == nil {
		return
	}
	a.pods.Update("default", "x-immortalpod", func(pod *corev1.Pod) {
		for _, change := range changes {
			change(pod)
		}
	})
}

// podFails: its container ends now.
func (a *apiServer) podFails() {
	a.podBecomes(func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Conditions = corev1.PodFailed, nil
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: ContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()}}}}
	})
}

// podIsDeleted is kubectl delete: the Pod begins to terminate.
func (a *apiServer) podIsDeleted() {
	if a.pod() != nil {
		a.pods.Delete("default", "x-immortalpod")
	}
}

// podGoes is the end of a Pod that terminates.
func (a *apiServer) podGoes() {
	if pod := a.pod(); pod != nil && pod.DeletionTimestamp != nil {
		a.removePod()
	}
}

func (a *apiServer) removePod() { a.pods.Remove("default", "x-immortalpod") }

// kubelet simulates a kubelet for that number of minutes: Pods that terminate go, the others become ready.
func (a *apiServer) kubelet(minutes int) {
	for range minutes {
		time.Sleep(30 * time.Second)
		a.podGoes()
		time.Sleep(30 * time.Second)
		a.podBecomes(func(pod *corev1.Pod) {
			if pod.DeletionTimestamp == nil && !finished(pod) {
				podReady(pod)
			}
		})
	}
	synctest.Wait()
}

// podAppears is a Pod that another client creates.
func (a *apiServer) podAppears(pod *corev1.Pod) { a.pods.Create(pod) }

func (a *apiServer) pod() *corev1.Pod { return a.pods.Get("default", "x-immortalpod") }

func (a *apiServer) container() *v1alpha1.ImmortalContainer { return a.containers.Get("default", "x") }

// took returns what was asked for since it was last called, once all is quiet: the requests, then the events.
func (a *apiServer) took() []string {
	synctest.Wait()
	requests, events := a.TakeLog()
	return append(requests, events...)
}

// wants compares what was asked for since the last time.
func (a *apiServer) wants(what string, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.took()); diff != "" {
		a.t.Errorf("requests, %s (-want +got):\n%s", what, diff)
	}
}

// operate runs the controller, until stop or the end of the test, as the manager does.
func (a *apiServer) operate() (stop func(), logged func() ktesting.Log) {
	logger := ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(a.t.Context(), logger))
	client, kube := versioned.NewForConfigOrDie(a.Config()), kubernetes.NewForConfigOrDie(a.Config())
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0,
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = controller.ManagedSelector }))
	factory := externalversions.NewSharedInformerFactory(client, 0)
	recorder := controller.StartEvents(ctx, kube).Recorder(scheme.Scheme, ControllerName)
	c, err := New(ctx, client, kube, factory.Immortalcontainers().V1alpha1().ImmortalContainers(), kubeFactory.Core().V1().Pods(), recorder)
	a.must(err)
	factory.StartWithContext(ctx)
	kubeFactory.StartWithContext(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx, 2)
		factory.Shutdown()
		kubeFactory.Shutdown()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	a.t.Cleanup(stop)
	return stop, logger.GetSink().(ktesting.Underlier).GetBuffer().Data
}
