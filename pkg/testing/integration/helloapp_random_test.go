// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller/helloapp"
)

func TestHelloAppRandomOperations(t *testing.T) {
	t.Parallel()
	testRandomOperations(t, helloapp.ControllerName, func(e *env) world {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
		owner, err := e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), owner, metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		return &appWorld{env: e, owner: owner, apps: map[string]*v1.HelloAppSpec{}, theirDeployments: map[string]bool{}, theirServices: map[string]bool{}}
	})
}

// appNames are the names of the HelloApps. They are few, so that each gets many operations.
var appNames = []string{"red", "green", "blue", "black", "white", "grey"}

// theirLabel is the label of foreign objects.
const theirLabel = "theirs"

// appWorld keeps what users and other clients have created, as far as it decides which objects must exist.
type appWorld struct {
	*env
	apps                            map[string]*v1.HelloAppSpec
	theirDeployments, theirServices map[string]bool
	// owner controls some of the foreign objects.
	owner *corev1.ConfigMap
}

// appOutcome describes the objects of one name.
type appOutcome struct {
	// Deployment and Service describe what they run, or are foreign. They are empty if the object does not exist.
	Deployment, Service string
	// Ready is the reason of the condition, and Replicas that of the status. Both are empty if there is no HelloApp.
	Ready    string
	Replicas int32
	Conflict bool
}

const foreign = "foreign"

// demanded returns which objects of one name must exist. It follows from the spec, nil if there is no HelloApp, and the foreign objects.
func demanded(spec *v1.HelloAppSpec, theirDeployment, theirService bool) (want appOutcome) {
	switch {
	case theirDeployment:
		want.Deployment = foreign
	case spec != nil && spec.Image != "":
		want.Deployment = fmt.Sprintf("%s x%d port %d env %v", spec.Image, spec.Size, spec.Port, namesAndValues(spec.Env))
	}
	switch {
	case theirService:
		want.Service = foreign
	case spec != nil && spec.Port != 0:
		want.Service = fmt.Sprintf("port %d to the app", spec.Port)
	}
	if spec == nil {
		return want
	}
	want.Conflict = theirDeployment && spec.Image != "" || theirService && spec.Port != 0
	switch {
	case spec.Image == "":
		want.Ready = v1.ReasonImageNotSet
	case theirDeployment:
		want.Ready = v1.ReasonConflict
	default:
		want.Ready, want.Replicas = v1.ReasonAvailable, spec.Size
	}
	return want
}

// found returns which objects of one name exist, in the same form. Orphans of a HelloApp that was deleted may stay until one adopts them.
func found(app *v1.HelloApp, deployment *appsv1.Deployment, service *corev1.Service) (got appOutcome) {
	wanted := v1.HelloAppSpec{}
	if app != nil {
		wanted = app.Spec
		got.Replicas = app.Status.Replicas
		got.Conflict = meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionConflict)
		if ready := meta.FindStatusCondition(app.Status.Conditions, v1.ConditionReady); ready != nil {
			got.Ready = ready.Reason
		}
	}
	if deployment != nil {
		switch container := deployment.Spec.Template.Spec.Containers[0]; {
		case deployment.Labels[theirLabel] != "":
			got.Deployment = foreign
		case len(deployment.OwnerReferences) == 0 && wanted.Image == "":
		default:
			ports := int32(0)
			for _, port := range container.Ports {
				ports += port.ContainerPort
			}
			got.Deployment = fmt.Sprintf("%s x%d port %d env %v", container.Image, *deployment.Spec.Replicas, ports, namesAndValues(container.Env))
		}
	}
	if service != nil {
		switch {
		case service.Labels[theirLabel] != "":
			got.Service = foreign
		case len(service.OwnerReferences) == 0 && wanted.Port == 0:
		case service.Spec.Selector["app.kubernetes.io/instance"] == service.Name && len(service.Spec.Ports) == 1:
			got.Service = fmt.Sprintf("port %d to the app", service.Spec.Ports[0].Port)
		default:
			got.Service = fmt.Sprintf("%+v", service.Spec)
		}
	}
	return got
}

func namesAndValues(variables []corev1.EnvVar) (text []string) {
	for _, variable := range variables {
		text = append(text, variable.Name+"="+variable.Value)
	}
	return text
}

// complaint implements world.
func (w *appWorld) complaint() string {
	apps, err := w.client.AppsV1().HelloApps(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	deployments, err := w.kube.AppsV1().Deployments(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	services, err := w.kube.CoreV1().Services(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, name := range appNames {
		app := named(apps.Items, name)
		deployment, service := named(deployments.Items, name), named(services.Items, name)
		want, got := demanded(w.apps[name], w.theirDeployments[name], w.theirServices[name]), found(app, deployment, service)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("%s (-want +got):\n%s", name, diff)
		}
		if app == nil {
			continue
		}
		if app.Status.ObservedGeneration != app.Generation || !cmp.Equal(app.Spec, *w.apps[name]) {
			return describeApp(app)
		}
		if want.Ready == v1.ReasonAvailable {
			if complaint := notDone(app, deployment); complaint != "" {
				return complaint
			}
		}
	}
	return w.touched(deployments.Items, services.Items)
}

// notDone returns what of the Deployment's rollout is in progress, or not in the status of the HelloApp yet.
func notDone(app *v1.HelloApp, deployment *appsv1.Deployment) string {
	if !metav1.IsControlledBy(deployment, app) {
		return "the Deployment of " + app.Name + " is not owned by it"
	}
	if deployment.Status.ObservedGeneration != deployment.Generation {
		return "the Deployment of " + app.Name + " has not been observed yet"
	}
	for _, condition := range deployment.Status.Conditions {
		mirrored := meta.FindStatusCondition(app.Status.Conditions, string(condition.Type))
		switch {
		case condition.Type == appsv1.DeploymentProgressing && condition.Reason != "NewReplicaSetAvailable":
			return "the rollout of " + app.Name + " is in progress"
		case mirrored == nil || mirrored.Reason != condition.Reason || mirrored.Message != condition.Message:
			return fmt.Sprintf("%s of the Deployment is %s; %s", condition.Type, condition.Reason, describeApp(app))
		}
	}
	return ""
}

// touched returns which foreign object the controller has written.
func (w *appWorld) touched(deployments []appsv1.Deployment, services []corev1.Service) string {
	var objects []metav1.Object
	for i := range deployments {
		objects = append(objects, &deployments[i])
	}
	for i := range services {
		objects = append(objects, &services[i])
	}
	for _, object := range objects {
		for _, entry := range object.GetManagedFields() {
			if entry.Manager == helloapp.FieldManager && object.GetLabels()[theirLabel] != "" {
				return "the controller has written the foreign object " + object.GetName()
			}
		}
	}
	return ""
}

// addLast implements world.
func (w *appWorld) addLast() {
	w.createApp(helloApp(lastName, 0))
	w.awaitApp(lastName, 0)
}

// operations implements world.
func (w *appWorld) operations() []operation {
	return []operation{
		{20, w.createOp},
		{10, w.onApp("size", w.scale)},
		{12, w.onApp("image", func(name string, random *rand.Rand) string {
			image := draw(random, "nginx:1", "nginx:2", "nginx:3", "")
			w.apps[name].Image = image
			return w.edit(name, "image", image)
		})},
		{6, w.onApp("env", func(name string, random *rand.Rand) string {
			value := draw(random, "fast", "slow")
			w.apps[name].Env = []corev1.EnvVar{{Name: "MODE", Value: value}}
			return w.edit(name, "env", w.apps[name].Env)
		})},
		{10, w.onApp("port", func(name string, random *rand.Rand) string {
			port := draw[int32](random, 0, 80, 81)
			w.apps[name].Port = port
			return w.edit(name, "port", port)
		})},
		{10, w.onApp("delete", w.deleteOp)},
		{5, w.onApp("recreate", func(name string, random *rand.Rand) string {
			w.deleteApp(name, metav1.DeletePropagationBackground)
			return "delete and " + w.makeApp(name, random)
		})},
		{8, w.driftOp},
		{8, w.deleteChildOp},
		{8, w.foreignOp},
	}
}

func draw[T any](random *rand.Rand, choices ...T) T { return choices[random.IntN(len(choices))] }

// onApp returns an operation on one of the HelloApps that exist.
func (w *appWorld) onApp(what string, do func(name string, random *rand.Rand) string) func(*rand.Rand) string {
	return func(random *rand.Rand) string {
		names := slices.Sorted(maps.Keys(w.apps))
		if len(names) == 0 {
			return what + ": there is no HelloApp"
		}
		return do(draw(random, names...), random)
	}
}

// named returns the object of the name, or nil if it does not exist.
func named[T any, Object interface {
	*T
	metav1.Object
}](objects []T, name string) Object {
	for i := range objects {
		if object := Object(&objects[i]); object.GetName() == name {
			return object
		}
	}
	return nil
}
