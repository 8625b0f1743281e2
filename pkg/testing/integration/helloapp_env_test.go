// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
)

// runHelloApps runs the HelloApp controller in the namespace until stop is called. The journal records its requests.
func runHelloApps(e *env, journal *faultproxy.Journal) (stop func()) {
	e.Helper()
	_, kubeconfig := startProxy(e, "helloapp", operatorAccount(e.T, e.cluster).Config, journal)
	return runManagerWith(e.T, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, e.namespace, []string{"helloapp"}
	})
}

// helloApp returns a HelloApp.
func helloApp(name string, size int32, changes ...func(*v1.HelloAppSpec)) *v1.HelloApp {
	app := &v1.HelloApp{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.HelloAppSpec{Size: size, Image: "nginx:latest"}}
	for _, change := range changes {
		change(&app.Spec)
	}
	return app
}

func (e *env) createApp(app *v1.HelloApp) *v1.HelloApp {
	e.Helper()
	created, err := e.client.AppsV1().HelloApps(e.namespace).Create(e.Context(), app, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func (e *env) app(name string) *v1.HelloApp {
	e.Helper()
	app, err := e.client.AppsV1().HelloApps(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return app
}

// patchApp applies a merge patch to the HelloApp.
func (e *env) patchApp(name, patch string) {
	e.Helper()
	_, err := e.client.AppsV1().HelloApps(e.namespace).Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// deployment returns the Deployment of the name, or nil if it does not exist.
func (e *env) deployment(name string) *appsv1.Deployment {
	e.Helper()
	deployment, err := e.kube.AppsV1().Deployments(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return deployment
}

func (e *env) createDeployment(deployment *appsv1.Deployment) *appsv1.Deployment {
	e.Helper()
	created, err := e.kube.AppsV1().Deployments(e.namespace).Create(e.Context(), deployment, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

// otherManager is the field manager of users and other clients.
const otherManager = "another-client"

// patchDeployment applies a strategic merge patch as another client.
func (e *env) patchDeployment(name, patch string) {
	e.Helper()
	options := metav1.PatchOptions{FieldManager: otherManager}
	_, err := e.kube.AppsV1().Deployments(e.namespace).Patch(e.Context(), name, types.StrategicMergePatchType, []byte(patch), options)
	if err != nil {
		e.Fatal(err)
	}
}

// service returns the Service of the name, or nil if it does not exist.
func (e *env) service(name string) *corev1.Service {
	e.Helper()
	service, err := e.kube.CoreV1().Services(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return service
}

// awaitApp waits until the HelloApp is Ready in its newest generation with that size, and returns it and its Deployment.
func (e *env) awaitApp(name string, size int32) (*v1.HelloApp, *appsv1.Deployment) {
	e.Helper()
	var app *v1.HelloApp
	e.eventually(func() string {
		app = e.app(name)
		ready := meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionReady)
		if app.Status.ObservedGeneration != app.Generation || !ready || app.Status.AvailableReplicas != size {
			return describeApp(app)
		}
		return ""
	})
	deployment := e.deployment(name)
	if deployment == nil || !metav1.IsControlledBy(deployment, app) {
		e.Fatalf("Deployment of a Ready HelloApp: got %v, want one that it controls", deployment)
	}
	if status := app.Status; status.Replicas != size || status.ReadyReplicas != size || status.UpdatedReplicas != size || status.DeploymentName != name {
		e.Errorf("status of a Ready HelloApp: got %+v, want %d replicas", status, size)
	}
	return app, deployment
}

// awaitAppCondition waits until the condition has the status and the reason, and returns its message.
func (e *env) awaitAppCondition(name, conditionType string, status metav1.ConditionStatus, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		app := e.app(name)
		condition := meta.FindStatusCondition(app.Status.Conditions, conditionType)
		if condition == nil || condition.Status != status || condition.Reason != reason || app.Status.ObservedGeneration != app.Generation {
			return describeApp(app)
		}
		message = condition.Message
		return ""
	})
	return message
}

// awaitAppEvent waits for an event of the reason with the message on the HelloApp.
func (e *env) awaitAppEvent(name, reason, message string) {
	e.Helper()
	e.eventually(func() string {
		var got []string
		for _, event := range e.appEvents(name) {
			if event.Reason == reason && event.Message == message {
				return ""
			}
			got = append(got, event.Reason+": "+event.Message)
		}
		return fmt.Sprintf("no event %s %q; got\n%s", reason, message, strings.Join(got, "\n"))
	})
}

func (e *env) appEvents(name string) []corev1.Event {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HelloApp,involvedObject.name=" + name})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// podUIDs returns the UIDs of the Pods of the HelloApp that are not terminating.
func (e *env) podUIDs(name string) map[types.UID]bool {
	e.Helper()
	list, err := e.kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "app=mock-containers"})
	if err != nil {
		e.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Name == name {
			uids[pod.UID] = true
		}
	}
	return uids
}

// describeApp returns the state of a HelloApp as one line.
func describeApp(app *v1.HelloApp) string {
	line := fmt.Sprintf("HelloApp %s: size %d, generation %d (observed %d), Deployment %q, %d replicas, %d updated, %d available", app.Name, app.Spec.Size,
		app.Generation, app.Status.ObservedGeneration, app.Status.DeploymentName, app.Status.Replicas, app.Status.UpdatedReplicas, app.Status.AvailableReplicas)
	for _, condition := range app.Status.Conditions {
		line += fmt.Sprintf("; %s=%s %s %q", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return line
}
