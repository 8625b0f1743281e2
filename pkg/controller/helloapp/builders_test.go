// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// noon is now in the tests of what is pure.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type appOption func(*v1.HelloApp)

// newApp is default/x, as the API server would return it after its first apply.
func newApp(options ...appOption) *v1.HelloApp {
	app := &v1.HelloApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "uid-x", Generation: 1, ResourceVersion: "1"},
		Spec:       v1.HelloAppSpec{Size: 2, Image: "nginx:1"},
	}
	for _, option := range options {
		option(app)
	}
	return app
}

// specFrom reads a spec as a user writes it.
func specFrom(t testing.TB, file string) v1.HelloAppSpec {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var spec v1.HelloAppSpec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return spec
}

func withSpec(spec v1.HelloAppSpec) appOption { return func(app *v1.HelloApp) { app.Spec = spec } }

// edited is a change of the spec: a new generation of which the status does not speak yet.
func edited(change func(*v1.HelloAppSpec)) appOption {
	return func(app *v1.HelloApp) {
		change(&app.Spec)
		app.Generation++
	}
}

func withPort(port int32) appOption   { return func(app *v1.HelloApp) { app.Spec.Port = port } }
func withoutAnImage(app *v1.HelloApp) { app.Spec.Image = "" }

// mirroring is an app whose status is up to date with what is observed.
func mirroring(deployment *appsv1.Deployment, service *corev1.Service) appOption {
	return func(app *v1.HelloApp) {
		app.Status = statusOf(observed{app: app, deployment: deployment, service: service, now: noon.Add(-time.Hour)})
	}
}

func withCondition(conditionType string, value metav1.ConditionStatus, reason, message string) appOption {
	return func(app *v1.HelloApp) {
		meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: conditionType, Status: value, Reason: reason, Message: message,
			ObservedGeneration: app.Generation, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))})
	}
}

type deploymentOption func(*appsv1.Deployment)

// deploymentOf the app, as the API server would return it after the first apply.
func deploymentOf(app *v1.HelloApp, options ...deploymentOption) *appsv1.Deployment {
	deployment := convert[appsv1.Deployment](newDeployment(app, nil))
	deployment.UID, deployment.ResourceVersion, deployment.Generation = "uid-deployment", "2", 1
	for _, option := range options {
		option(deployment)
	}
	return deployment
}

// rolledOut: the Deployment's controller has done all.
func rolledOut(deployment *appsv1.Deployment) {
	n := *deployment.Spec.Replicas
	counts(deployment.Generation, n, n, n)(deployment)
	reporting("Available", "True", "MinimumReplicasAvailable")(deployment)
	reporting("Progressing", "True", "NewReplicaSetAvailable")(deployment)
}

// counts of a rollout.
func counts(observedGeneration int64, replicas, updated, available int32) deploymentOption {
	return func(deployment *appsv1.Deployment) {
		deployment.Status.ObservedGeneration = observedGeneration
		deployment.Status.Replicas, deployment.Status.UpdatedReplicas = replicas, updated
		deployment.Status.AvailableReplicas, deployment.Status.ReadyReplicas = available, available
	}
}

func reporting(conditionType appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) deploymentOption {
	return func(deployment *appsv1.Deployment) {
		set := appsv1.DeploymentCondition{Type: conditionType, Status: status, Reason: reason, Message: "says the Deployment"}
		if c := deploymentCondition(deployment, conditionType); c != nil {
			*c = set
		} else {
			deployment.Status.Conditions = append(deployment.Status.Conditions, set)
		}
	}
}

// defaulted is what the API server fills in.
func defaulted(deployment *appsv1.Deployment) {
	spec := &deployment.Spec
	spec.RevisionHistoryLimit, spec.ProgressDeadlineSeconds = ptr.To[int32](10), ptr.To[int32](600)
	spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	pod := &spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
	pod.TerminationGracePeriodSeconds, pod.SecurityContext = ptr.To[int64](30), &corev1.PodSecurityContext{}
	pod.DeprecatedServiceAccount = pod.ServiceAccountName
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", corev1.TerminationMessageReadFile
		if c.ImagePullPolicy == "" {
			c.ImagePullPolicy = corev1.PullIfNotPresent
		}
		for j := range c.Env {
			if from := c.Env[j].ValueFrom; from != nil && from.FieldRef != nil {
				from.FieldRef.APIVersion = "v1"
			}
		}
	}
}

func terminating(object metav1.Object) { object.SetDeletionTimestamp(ptr.To(metav1.NewTime(noon))) }
func orphaned(object metav1.Object)    { object.SetOwnerReferences(nil) }
func ofAnEarlierApp(o metav1.Object)   { o.GetOwnerReferences()[0].UID = "uid-of-an-earlier-x" }
func ofAnotherOwner(o metav1.Object) {
	o.GetOwnerReferences()[0].Name, o.GetOwnerReferences()[0].UID = "y", "uid-y"
}
func unlabelled(object metav1.Object) { delete(object.GetLabels(), controller.LabelManagedBy) }
func notOurs(object metav1.Object)    { orphaned(object); unlabelled(object) }
func deployed(change func(metav1.Object)) deploymentOption {
	return func(deployment *appsv1.Deployment) { change(deployment) }
}

// ofTheOldOperator is a Deployment as an earlier operator made it.
func ofTheOldOperator(deployment *appsv1.Deployment) {
	unlabelled(deployment)
	deployment.Annotations = nil
	old := map[string]string{"app": "mock-containers"}
	deployment.Spec.Selector, deployment.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: old}, old
}

// serviceOf the app.
func serviceOf(app *v1.HelloApp, changes ...func(metav1.Object)) *corev1.Service {
	service := convert[corev1.Service](newService(app))
	service.UID, service.ResourceVersion = "uid-service", "3"
	service.Spec.ClusterIP, service.Spec.Type = "10.96.0.7", corev1.ServiceTypeClusterIP
	for _, change := range changes {
		change(service)
	}
	return service
}

// describe is the plan as lines: short enough to read, long enough to tell all that matters.
func describe(p controller.Plan) []string {
	lines := []string{}
	for _, ask := range p.Asks {
		lines = append(lines, ask.String())
	}
	for _, s := range p.Steps {
		if write, ok := s.(writeStatus); ok {
			lines = append(lines, describeStatus(write.status))
			continue
		}
		lines = append(lines, s.String())
	}
	if p.RequeueAfter != 0 {
		lines = append(lines, "again after "+p.RequeueAfter.String())
	}
	return lines
}

func describeStatus(status v1.HelloAppStatus) string {
	var line strings.Builder
	fmt.Fprintf(&line, "status: generation %d", status.ObservedGeneration)
	if status.DeploymentName != "" {
		fmt.Fprintf(&line, ", Deployment %s %d/%d/%d/%d", status.DeploymentName, status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas)
	}
	for _, conditionType := range []string{"Ready", "Available", "Progressing", "Conflict"} {
		if c := meta.FindStatusCondition(status.Conditions, conditionType); c != nil {
			fmt.Fprintf(&line, ", %s=%s %s", c.Type, c.Status, c.Reason)
		}
	}
	return line.String()
}
