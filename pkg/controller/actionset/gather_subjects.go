// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/function"
)

// lookUpSubjects reads the subjects of all actions, and checks that all other objects that they name exist.
func (s *syncer) lookUpSubjects(ctx context.Context) []foundSubject {
	found := make([]foundSubject, len(s.o.set.Spec.Actions))
	budget := blueprint.NewBudget(ctx)
	for i := range found {
		f, err := s.lookUpSubject(ctx, budget, &s.o.set.Spec.Actions[i])
		f.lookupResult = s.resultOf(fmt.Sprintf("reading what action %d names", i), err)
		found[i] = f
	}
	return found
}

func (s *syncer) lookUpSubject(ctx context.Context, budget *blueprint.Budget, spec *v1alpha1.ActionSpec) (f foundSubject, err error) {
	if f.subject, err = s.readSubject(ctx, &spec.Object); err != nil {
		return f, err
	}
	action := &snapshotAction{Spec: *spec, Time: s.o.now.UTC().Format(time.RFC3339Nano), Subject: f.subject}
	if named := s.o.blueprints[spec.Blueprint]; named != nil {
		action.Blueprint = named.Actions[spec.Name]
	}
	read, err := s.readInputs(ctx, action)
	if err != nil {
		return f, err
	}
	f.objects, err = inTurn(budget, func() (map[int]map[string]v1alpha1.ObjectReference, error) {
		return renderObjects(budget, action, read)
	})
	return f, err
}

// readSubject reads one subject, with its Pods if it is a workload.
func (s *syncer) readSubject(ctx context.Context, reference *v1alpha1.ObjectReference) (found subject, _ error) {
	kind := strings.ToLower(reference.Kind)
	if kind == "namespace" {
		// Both are the namespace of the reference, as in Kanister.
		found.Namespace = &blueprint.Reference{Name: reference.Namespace, Namespace: reference.Namespace}
	}
	resource, namespace := resourceOf(reference, s.key.Namespace)
	object, err := s.dynamic.Resource(resource).Namespace(namespace).Get(ctx, reference.Name, getOptions)
	if err != nil {
		return found, fmt.Errorf("reading the subject %s %s: %w", resource.GroupResource(), reference.Name, err)
	}
	if resource.GroupResource() == corev1.Resource("secrets") {
		secretType, _, _ := unstructured.NestedString(object.Object, "type")
		if err := refuseSecret(object, corev1.SecretType(secretType), s.OperatorNamespace); err != nil {
			return found, err
		}
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	found.Object = object.Object
	switch kind {
	case "statefulset":
		found.StatefulSet, err = s.readStatefulSet(ctx, object)
	case "deployment":
		found.Deployment, err = s.readDeployment(ctx, object)
	case "pvc":
		found.PVC = &blueprint.Reference{Name: object.GetName(), Namespace: object.GetNamespace()}
	}
	return found, err
}

// resourceOf returns the resource and the namespace of a subject. A subject of a known kind without a namespace is in that of the ActionSet.
func resourceOf(reference *v1alpha1.ObjectReference, ownNamespace string) (resource schema.GroupVersionResource, namespace string) {
	namespace = cmp.Or(reference.Namespace, ownNamespace)
	switch strings.ToLower(reference.Kind) {
	case "statefulset":
		return appsv1.SchemeGroupVersion.WithResource("statefulsets"), namespace
	case "deployment":
		return appsv1.SchemeGroupVersion.WithResource("deployments"), namespace
	case "pvc":
		return corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), namespace
	case "namespace":
		return corev1.SchemeGroupVersion.WithResource("namespaces"), ""
	default:
		return schema.GroupVersionResource{Group: reference.Group, Version: reference.APIVersion, Resource: reference.Resource}, reference.Namespace
	}
}

func (s *syncer) readStatefulSet(ctx context.Context, object *unstructured.Unstructured) (*blueprint.Workload, error) {
	var set appsv1.StatefulSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set); err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	pods, err := s.listPods(ctx, set.Namespace, set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return workloadOf(&set, &set, pods), nil
}

func (s *syncer) readDeployment(ctx context.Context, object *unstructured.Unstructured) (*blueprint.Workload, error) {
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	sets, err := s.KubeClient.AppsV1().ReplicaSets(deployment.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing ReplicaSets in namespace %s: %w", deployment.Namespace, err)
	}
	current := function.CurrentReplicaSet(&deployment, sets.Items)
	if current == nil {
		return nil, phase.Failf("deployment %s/%s has no ReplicaSet of its revision: it has not been rolled out yet", deployment.Namespace, deployment.Name)
	}
	pods, err := s.listPods(ctx, deployment.Namespace, deployment.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return workloadOf(&deployment, current, pods), nil
}

func (s *syncer) listPods(ctx context.Context, namespace string, selector *metav1.LabelSelector) ([]corev1.Pod, error) {
	pods, err := s.KubeClient.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return nil, fmt.Errorf("listing Pods in namespace %s: %w", namespace, err)
	}
	return pods.Items, nil
}
