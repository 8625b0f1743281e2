// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
)

// What users and other controllers do; none of it is written down as a request.

// inBubble runs a test of the controller on an API server with default/x in it.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer), options ...appOption) {
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t, newApp(options...))) })
}

// edit is a user's change of default/x: it makes a new generation.
func (a *apiServer) edit(change func(*v1.HelloAppSpec)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	app := a.app()
	change(&app.Spec)
	app.Generation++
	app.ResourceVersion = a.nextVersion()
	a.must(a.apps.Tracker().Update(appsResource, app, app.Namespace))
}

// deploymentBecomes changes the Deployment x, as its controller does or who else may; nothing where there is none.
func (a *apiServer) deploymentBecomes(change deploymentOption) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.deployment(); before != nil {
		deployment := before.DeepCopy()
		change(deployment)
		a.update(deploymentsResource, before, deployment)
	}
}

func (a *apiServer) serviceBecomes(change func(*corev1.Service)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.service(); before != nil {
		service := before.DeepCopy()
		change(service)
		a.update(servicesResource, before, service)
	}
}

// deploymentAppears is a Deployment that somebody else makes.
func (a *apiServer) deploymentAppears(deployment *appsv1.Deployment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	deployment.ResourceVersion = a.nextVersion()
	a.must(a.kube.Tracker().Create(deploymentsResource, deployment, deployment.Namespace))
}

func (a *apiServer) serviceAppears(service *corev1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	service.ResourceVersion = a.nextVersion()
	a.must(a.kube.Tracker().Create(servicesResource, service, service.Namespace))
}

func (a *apiServer) deploymentGoes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deployment() != nil {
		a.must(a.kube.Tracker().Delete(deploymentsResource, "default", "x"))
	}
}

func (a *apiServer) serviceGoes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.must(a.kube.Tracker().Delete(servicesResource, "default", "x"))
}

func (a *apiServer) app() *v1.HelloApp {
	object, err := a.apps.Tracker().Get(appsResource, "default", "x")
	a.must(err)
	return object.(*v1.HelloApp)
}

// deployment x; nil if there is none.
func (a *apiServer) deployment() *appsv1.Deployment {
	object, err := a.kube.Tracker().Get(deploymentsResource, "default", "x")
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.must(err)
	return object.(*appsv1.Deployment)
}

// service x; nil if there is none.
func (a *apiServer) service() *corev1.Service {
	object, err := a.kube.Tracker().Get(servicesResource, "default", "x")
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.must(err)
	return object.(*corev1.Service)
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
	factory := externalversions.NewSharedInformerFactory(a.apps, 0)
	recorder := controller.StartEvents(ctx, a.kube).Recorder(scheme.Scheme, ControllerName)
	c, err := New(ctx, a.apps, a.kube, factory.Apps().V1().HelloApps(), kubeFactory.Apps().V1().Deployments(), kubeFactory.Core().V1().Services(), recorder)
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

// coldStart is up to the end of the first rollout.
func coldStart(a *apiServer) (stop func()) {
	a.t.Helper()
	stop, _ = a.operate()
	synctest.Wait()
	a.deploymentBecomes(rolledOut)
	time.Sleep(time.Minute)
	a.took()
	return stop
}
