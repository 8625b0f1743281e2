// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/jsonscan"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/function"
)

// subjects are those that were read, by the references to them: one that several actions name is read once.
type subjects map[v1alpha1.ObjectReference]sizedSubject

// sizedSubject is a subject with its size, in bytes of JSON, and about how much memory it takes, in bytes.
type sizedSubject struct {
	subject
	size, memory int
}

// maxSubjectMemory is how much memory the subjects of an ActionSet may take together, in bytes.
const maxSubjectMemory = 16 << 20

// lookUpSubjects reads the subjects of all actions, and checks that all other objects that they name exist. The subjects may have room bytes of JSON
// together. It ends with the first action that cannot be started, because then none is. Its error is errAwaitsTurn if it needs a turn: nothing of the start is
// recorded yet, and all of it can begin again.
func (s *syncer) lookUpSubjects(ctx context.Context, room int) ([]foundSubject, error) {
	s.reads.check = s.checkReads
	defer func() { s.reads.check = nil }()
	largeSubject := slices.ContainsFunc(s.o.set.Spec.Actions, func(action v1alpha1.ActionSpec) bool {
		_, large := s.largeSubjects.Get(subjectKeyOf(&action.Object, s.key.Namespace))
		return large
	})
	if largeSubject || startReads(s.o.set.Spec, s.key.Namespace) > fewReads {
		if err := s.takeTurn(); err != nil {
			return nil, err
		}
	}
	found := make([]foundSubject, len(s.o.set.Spec.Actions))
	budget, read, memory := blueprint.NewBudget(ctx), subjects{}, 0
	for i := range found {
		action := &s.o.set.Spec.Actions[i]
		of, err := s.readSubjectOnce(ctx, read, &action.Object)
		if room -= of.size; err == nil && room < 0 {
			err = phase.Failf("%s", snapshotTooLarge(corev1.MaxSecretSize-room))
		}
		if memory += of.memory; err == nil && memory > maxSubjectMemory {
			err = phase.Failf("the subjects of the actions take more than %d bytes of memory together: run fewer actions at a time", maxSubjectMemory)
		}
		if err == nil {
			found[i].subject = of.subject
			found[i].objects, err = s.lookUpObjects(ctx, budget, action, of)
		}
		if errors.Is(err, errAwaitsTurn) {
			return nil, errAwaitsTurn
		}
		found[i].lookupResult = s.resultOf(fmt.Sprintf("reading what action %d names", i), err)
		if err != nil {
			break
		}
		controller.RestartSyncLimit(ctx)
	}
	return found, nil
}

func (s *syncer) readSubjectOnce(ctx context.Context, read subjects, reference *v1alpha1.ObjectReference) (sizedSubject, error) {
	if known, ok := read[*reference]; ok {
		return known, nil
	}
	found, err := s.readSubject(ctx, reference)
	if err != nil {
		return sizedSubject{}, err
	}
	content, err := json.Marshal(found)
	if err != nil {
		return sizedSubject{}, err
	}
	of := sizedSubject{found, len(content), jsonscan.DecodedMemory(content)}
	s.reads.total += of.memory // it was admitted
	read[*reference] = of
	return of, nil
}

// lookUpObjects returns the references of the objects of the phases of an action, by the index of the phase.
func (s *syncer) lookUpObjects(
	ctx context.Context, budget *blueprint.Budget, spec *v1alpha1.ActionSpec, of sizedSubject,
) (map[int]map[string]v1alpha1.ObjectReference, error) {
	action := &snapshotAction{Spec: *spec, Time: s.o.now.UTC().Format(time.RFC3339Nano), Subject: of.subject}
	if named := s.o.blueprints[spec.Blueprint]; named != nil {
		action.Blueprint = named.Actions[spec.Name]
	}
	read, err := s.readNamed(ctx, inputsNamed(action, nil))
	if err != nil {
		return nil, err
	}
	small := !s.large && of.memory+read.size <= smallData
	return inTurn(budget, small, func() (map[int]map[string]v1alpha1.ObjectReference, error) {
		return renderObjects(budget, action, read)
	})
}

// subjectKey identifies a subject.
type subjectKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func subjectKeyOf(reference *v1alpha1.ObjectReference, ownNamespace string) subjectKey {
	resource, namespace := resourceOf(reference, ownNamespace)
	return subjectKey{resource, namespace, reference.Name}
}

// maxLargeSubjects is how many large subjects are known, so that each is read without a turn about once.
const maxLargeSubjects = 1000

// readSubject reads one subject, with its Pods if it is a workload.
func (s *syncer) readSubject(ctx context.Context, reference *v1alpha1.ObjectReference) (found subject, _ error) {
	kind := strings.ToLower(reference.Kind)
	if kind == "namespace" {
		// Both are the namespace of the reference, as in Kanister.
		found.Namespace = &blueprint.Reference{Name: reference.Namespace, Namespace: reference.Namespace}
	}
	resource, namespace := resourceOf(reference, s.key.Namespace)
	if err := s.reach().RefuseAccess(s.key.Namespace, resource.GroupResource(), namespace, reference.Name); err != nil {
		return found, err
	}
	admitted, reads := phase.CountReads(phase.WithAdmission(ctx, s.reads.admit))
	object, err := s.dynamic.Resource(resource).Namespace(namespace).Get(admitted, reference.Name, getOptions)
	reads.AddTo(ctx)
	switch key := subjectKeyOf(reference, s.key.Namespace); {
	case reads.Memory.Load() > smallReads:
		s.largeSubjects.Add(key, nil)
	case err == nil || apierrors.IsNotFound(err):
		s.largeSubjects.Remove(key)
	}
	if message, tooLarge := phase.FailureOf(err); tooLarge {
		return found, phase.Failf("the subject %s %s: %s", resource.GroupResource(), reference.Name, message)
	}
	if err != nil {
		return found, fmt.Errorf("reading the subject %s %s: %w", resource.GroupResource(), reference.Name, err)
	}
	if resource.GroupResource() == corev1.Resource("secrets") {
		secretType, _, _ := unstructured.NestedString(object.Object, "type")
		if err := s.reach().RefuseSecret(s.key.Namespace, object, corev1.SecretType(secretType)); err != nil {
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
	pods, err := s.listPods(ctx, &set, set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return workloadOf(&set, pods), nil
}

func (s *syncer) readDeployment(ctx context.Context, object *unstructured.Unstructured) (*blueprint.Workload, error) {
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	current, err := function.CurrentReplicaSet(ctx, s.KubeClient, &deployment, deployment.Spec.Selector, s.reads.add)
	if err != nil {
		return nil, fmt.Errorf("listing ReplicaSets in namespace %s: %w", deployment.Namespace, err)
	}
	if current == nil {
		return nil, phase.Failf("deployment %s/%s has no ReplicaSet of its revision: it has not been rolled out yet", deployment.Namespace, deployment.Name)
	}
	pods, err := s.listPods(ctx, current, deployment.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return workloadOf(&deployment, pods), nil
}

// listPods returns what templates get of the running Pods that the owner controls.
func (s *syncer) listPods(ctx context.Context, owner metav1.Object, selector *metav1.LabelSelector) (pods []workloadPod, _ error) {
	err := function.EachPod(ctx, s.KubeClient, owner.GetNamespace(), selector, func(listed *corev1.Pod) error {
		if pod, ok := workloadPodOf(listed, owner); ok {
			pods = append(pods, pod)
		}
		return s.reads.add(listed.Size())
	})
	if err != nil {
		return nil, fmt.Errorf("listing Pods in namespace %s: %w", owner.GetNamespace(), err)
	}
	return pods, nil
}
