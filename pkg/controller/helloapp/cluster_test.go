// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/fakeapi"
)

// apiServer is the API server with HelloApps and what is made for them.
type apiServer struct {
	*fakeapi.Server
	t           *testing.T
	apps        versioned.Interface
	kube        kubernetes.Interface
	objects     fakeapi.Objects[v1.HelloApp]
	deployments fakeapi.Objects[appsv1.Deployment]
	services    fakeapi.Objects[corev1.Service]
}

var (
	helloApps   = fakeapi.Custom(v1.Resource("helloapps").WithVersion("v1"), &v1.HelloApp{})
	deployments = func() fakeapi.Resource {
		resource := fakeapi.Deployments
		resource.Admit = fakeapi.Admit(func(_, deployment *appsv1.Deployment) error {
			defaulted(deployment)
			return nil
		})
		return resource
	}()
)

func newAPIServer(t *testing.T, objects ...*v1.HelloApp) *apiServer {
	server := fakeapi.New(t, helloApps, deployments, fakeapi.Services)
	a := &apiServer{
		Server: server, t: t, apps: versioned.NewForConfigOrDie(server.Config()), kube: kubernetes.NewForConfigOrDie(server.Config()),
		objects: fakeapi.Of[v1.HelloApp](server, helloApps), deployments: fakeapi.Of[appsv1.Deployment](server, deployments),
		services: fakeapi.Of[corev1.Service](server, fakeapi.Services),
	}
	a.Log(a.requestText)
	for _, object := range objects {
		a.objects.Create(object)
	}
	return a
}

// requestText is the request in a line.
func (a *apiServer) requestText(r *fakeapi.Request) string {
	switch {
	case r.Scripted != nil:
		return r.String() + ": " + r.Scripted.Error()
	case r.Verb == "update":
		return describeStatus(fakeapi.Decode[v1.HelloApp](r).Status)
	case r.Verb == "delete":
		return fmt.Sprintf("delete %s if it is %s", r.Resource.Resource, *fakeapi.Decode[metav1.DeleteOptions](r).Preconditions.UID)
	case r.Verb != "patch":
		return r.String()
	case r.Query.Get("fieldManager") != FieldManager:
		a.t.Errorf("%s by the field manager %q", r, r.Query.Get("fieldManager"))
	case r.Query.Get("force") != "true":
		return "create " + r.Resource.Resource
	}
	return "apply " + r.Resource.Resource
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// inBubble runs a test of the controller on an API server with default/x in it.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer), options ...appOption) {
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t, newApp(options...))) })
}

// What users and other controllers do; none of it is logged as a request.

// edit is a user's change of default/x: it makes a new generation.
func (a *apiServer) edit(change func(*v1.HelloAppSpec)) {
	a.objects.Update("default", "x", func(app *v1.HelloApp) { change(&app.Spec) })
}

// deploymentBecomes changes the Deployment x, as its controller does or who else may; nothing where there is none.
func (a *apiServer) deploymentBecomes(change deploymentOption) {
	if a.deployment() != nil {
		a.deployments.Update("default", "x", change)
	}
}

func (a *apiServer) serviceBecomes(change func(*corev1.Service)) {
	if a.service() != nil {
		a.services.Update("default", "x", change)
	}
}

// deploymentAppears is a Deployment that another client creates.
func (a *apiServer) deploymentAppears(deployment *appsv1.Deployment) {
	a.deployments.Create(deployment)
	*deployment = *a.deployment()
}

func (a *apiServer) serviceAppears(service *corev1.Service) {
	a.services.Create(service)
	*service = *a.service()
}

func (a *apiServer) deploymentGoes() {
	if a.deployment() != nil {
		a.deployments.Remove("default", "x")
	}
}

func (a *apiServer) serviceGoes() { a.services.Remove("default", "x") }

func (a *apiServer) app() *v1.HelloApp { return a.objects.Get("default", "x") }

// deployment x; nil if there is none.
func (a *apiServer) deployment() *appsv1.Deployment { return a.deployments.Get("default", "x") }

// service x; nil if there is none.
func (a *apiServer) service() *corev1.Service { return a.services.Get("default", "x") }

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
