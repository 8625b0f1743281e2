// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
)

// What users, the kubelet and other controllers do; none of it is written down as a request.

// edit is a user's change of default/x: it makes a new generation.
func (a *apiServer) edit(change func(*v1alpha1.ImmortalContainer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	container := a.container()
	change(container)
	container.Generation++
	container.ResourceVersion = a.nextVersion()
	a.must(a.containers.Tracker().Update(containersResource, container, container.Namespace))
}

// podBecomes changes the Pod of default/x, as the kubelet does or who else may; nothing where there is none.
func (a *apiServer) podBecomes(changes ...podOption) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pod()
	if pod == nil {
		return
	}
	before := pod.DeepCopy()
	for _, change := range changes {
		change(pod)
	}
	if !equality.Semantic.DeepEqual(before, pod) {
		a.updatePod(pod)
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pod() != nil {
		a.must(a.deletePod("default", "x-immortalpod", ""))
	}
}

// podGoes is the end of a Pod that terminates.
func (a *apiServer) podGoes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod := a.pod(); pod != nil && pod.DeletionTimestamp != nil {
		a.must(a.kube.Tracker().Delete(podsResource, "default", "x-immortalpod"))
	}
}

// kubelet does its work for so many minutes: Pods that terminate go, the others become ready.
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

// podAppears is a Pod that somebody else makes.
func (a *apiServer) podAppears(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod.ResourceVersion = a.nextVersion()
	a.must(a.kube.Tracker().Create(podsResource, pod, pod.Namespace))
}

func (a *apiServer) pod() *corev1.Pod {
	object, err := a.kube.Tracker().Get(podsResource, "default", "x-immortalpod")
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.must(err)
	return object.(*corev1.Pod)
}

func (a *apiServer) container() *v1alpha1.ImmortalContainer {
	object, err := a.containers.Tracker().Get(containersResource, "default", "x")
	a.must(err)
	return object.(*v1alpha1.ImmortalContainer)
}

// took returns what was asked for since it was last called, once all is quiet: the requests, then the events.
func (a *apiServer) took() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := append(a.requests, a.events...)
	a.requests, a.events = nil, nil
	return slices.Clip(lines)
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
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(a.kube, 0,
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = controller.ManagedSelector }))
	factory := externalversions.NewSharedInformerFactory(a.containers, 0)
	recorder := controller.StartEvents(ctx, a.kube).Recorder(scheme.Scheme, ControllerName)
	c, err := New(ctx, a.containers, a.kube, factory.Immortalcontainers().V1alpha1().ImmortalContainers(), kubeFactory.Core().V1().Pods(), recorder)
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
