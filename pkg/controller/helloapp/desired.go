// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

const (
	// AnnotationSpecHash has, on the Deployment, the hash of the spec that was last applied.
	AnnotationSpecHash = "apps.anupam.com/spec-hash"
	// AnnotationGeneration has, on the Deployment, the generation of the HelloApp that was last applied.
	AnnotationGeneration = "apps.anupam.com/generation"

	labelName     = "app.kubernetes.io/name"
	labelInstance = "app.kubernetes.io/instance"
	// labelOld is on all Pods of all HelloApps: an earlier operator used it.
	labelOld, valueOld = "app", "mock-containers"

	// portName names the port of the container and of the Service.
	portName = "http"
)

var kind = schema.GroupVersion(v1.GroupVersion).WithKind("HelloApp")

// newDeployment returns the desired Deployment. A live one keeps its selector, which is immutable.
func newDeployment(app *v1.HelloApp, live *appsv1.Deployment) *appsapply.DeploymentApplyConfiguration {
	selector := metaapply.LabelSelector().WithMatchLabels(podSelector(app.Name))
	if live != nil {
		selector = convert[metaapply.LabelSelectorApplyConfiguration](live.Spec.Selector)
	}
	return appsapply.Deployment(app.Name, app.Namespace).
		WithLabels(ownLabels(app.Name)).
		WithAnnotations(map[string]string{AnnotationSpecHash: specHash(app.Spec), AnnotationGeneration: strconv.FormatInt(app.Generation, 10)}).
		WithOwnerReferences(ownerReference(app)).
		WithSpec(appsapply.DeploymentSpec().
			WithReplicas(app.Spec.Size).
			WithSelector(selector).
			WithTemplate(newTemplate(app, live)))
}

func newTemplate(app *v1.HelloApp, live *appsv1.Deployment) *coreapply.PodTemplateSpecApplyConfiguration {
	container := coreapply.Container().WithName(app.Name).WithImage(app.Spec.Image)
	if app.Spec.Port != 0 {
		container.WithPorts(coreapply.ContainerPort().WithName(portName).WithContainerPort(app.Spec.Port).WithProtocol(corev1.ProtocolTCP))
	}
	for i := range app.Spec.Env {
		container.WithEnv(convert[coreapply.EnvVarApplyConfiguration](app.Spec.Env[i]))
	}
	if r := app.Spec.Resources; len(r.Limits)+len(r.Requests)+len(r.Claims) > 0 {
		container.WithResources(convert[coreapply.ResourceRequirementsApplyConfiguration](r))
	}
	if app.Spec.ImagePullPolicy != "" {
		container.WithImagePullPolicy(app.Spec.ImagePullPolicy)
	}
	pod := coreapply.PodSpec().WithContainers(container)
	for i := range app.Spec.ImagePullSecrets {
		pod.WithImagePullSecrets(convert[coreapply.LocalObjectReferenceApplyConfiguration](app.Spec.ImagePullSecrets[i]))
	}
	if app.Spec.ServiceAccountName != "" {
		pod.WithServiceAccountName(app.Spec.ServiceAccountName)
	}
	return coreapply.PodTemplateSpec().WithLabels(podLabels(app.Name, live)).WithSpec(pod)
}

// newService returns the desired Service. It selects by our labels, whatever selector the Deployment has: that of an earlier
// operator's Deployment would select the Pods of all HelloApps in the namespace.
func newService(app *v1.HelloApp) *coreapply.ServiceApplyConfiguration {
	return coreapply.Service(app.Name, app.Namespace).
		WithLabels(ownLabels(app.Name)).
		WithOwnerReferences(ownerReference(app)).
		WithSpec(coreapply.ServiceSpec().
			WithSelector(podSelector(app.Name)).
			WithPorts(coreapply.ServicePort().WithName(portName).WithPort(app.Spec.Port).
				WithProtocol(corev1.ProtocolTCP).WithTargetPort(intstr.FromInt32(app.Spec.Port))))
}

func ownerReference(app *v1.HelloApp) *metaapply.OwnerReferenceApplyConfiguration {
	return metaapply.OwnerReference().
		WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind).WithName(app.Name).WithUID(app.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

// podSelector selects the Pods of the HelloApp of that name, and no others.
func podSelector(name string) labels.Set {
	return labels.Set{labelName: "helloapp", labelInstance: name}
}

// ownLabels returns the labels of all objects that we create for the HelloApp of that name.
func ownLabels(name string) map[string]string {
	own := podSelector(name)
	own[controller.LabelManagedBy] = controller.ManagedBy
	return own
}

// podLabels returns the labels of the Pods of the HelloApp of that name. Labels in the selector of a live Deployment are kept, so that the
// Pods match it.
func podLabels(name string, live *appsv1.Deployment) map[string]string {
	own := podSelector(name)
	own[labelOld] = valueOld
	if live == nil || live.Spec.Selector == nil {
		return own
	}
	spokenOf := maps.Clone(live.Spec.Selector.MatchLabels)
	if spokenOf == nil {
		spokenOf = map[string]string{}
	}
	for _, requirement := range live.Spec.Selector.MatchExpressions {
		spokenOf[requirement.Key] = ""
	}
	for key := range spokenOf {
		if value, ok := live.Spec.Template.Labels[key]; ok {
			own[key] = value
		} else {
			delete(own, key)
		}
	}
	return own
}

// specHash returns the hash of the fields of the spec that affect the Deployment. It is stored on Deployments, and a golden test pins
// it.
func specHash(spec v1.HelloAppSpec) string {
	return controller.Hash(struct {
		Size               int32                         `json:"size"`
		Image              string                        `json:"image"`
		Port               int32                         `json:"port"`
		Env                []corev1.EnvVar               `json:"env"`
		Resources          corev1.ResourceRequirements   `json:"resources"`
		ImagePullPolicy    corev1.PullPolicy             `json:"imagePullPolicy"`
		ImagePullSecrets   []corev1.LocalObjectReference `json:"imagePullSecrets"`
		ServiceAccountName string                        `json:"serviceAccountName"`
	}{spec.Size, spec.Image, spec.Port, spec.Env, spec.Resources, spec.ImagePullPolicy, spec.ImagePullSecrets, spec.ServiceAccountName})
}

// convert turns API data into its apply configuration.
func convert[Configuration any](data any) *Configuration {
	configuration := new(Configuration)
	encoded, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(encoded, configuration)
	}
	if err != nil {
		panic(fmt.Sprintf("turning a %T into its apply configuration: %v", data, err)) // their JSON is the same
	}
	return configuration
}

// appliedGeneration returns the generation of the HelloApp that was last applied; 0 if the Deployment has none.
func appliedGeneration(deployment *appsv1.Deployment) int64 {
	generation, err := strconv.ParseInt(deployment.Annotations[AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// imageOf the HelloApp's container in the Deployment.
func imageOf(app *v1.HelloApp, deployment *appsv1.Deployment) string {
	for i := range deployment.Spec.Template.Spec.Containers {
		if container := &deployment.Spec.Template.Spec.Containers[i]; container.Name == app.Name {
			return container.Image
		}
	}
	return ""
}
