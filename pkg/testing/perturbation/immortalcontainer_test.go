// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/immortalcontainer"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

var (
	containers = v1alpha1.Resource("immortalcontainers").WithVersion(v1alpha1.GroupVersion.Version)
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
)

const (
	name    = "web"
	podName = "web-immortalpod"
)

func TestImmortalContainer(t *testing.T) {
	scenarios := []perturbation.Scenario{
		{Name: "create", Acts: []perturbation.Act{create()}, Flicker: flickerSuspend},
		{Name: "delete Pod", Acts: []perturbation.Act{create(), deletePod(2)}, Flicker: flickerSuspend},
		{Name: "Pod succeeds", Acts: []perturbation.Act{create(), endPod(corev1.PodSucceeded, 0, 2)}, Flicker: flickerLabel},
		{Name: "Pod fails twice", Acts: []perturbation.Act{create(), endPod(corev1.PodFailed, 1, 2), endPod(corev1.PodFailed, 2, 3)}, Flicker: flickerLabel},
		{Name: "image changes", Acts: []perturbation.Act{create(), editSpec("another image", "image", "nginx:1.29", ready(2))}, Flicker: flickerLabel},
		{Name: "suspend and resume", Acts: []perturbation.Act{
			create(),
			editSpec("suspend", "suspend", true, suspended),
			editSpec("resume", "suspend", nil, ready(2)),
		}, Flicker: flickerLabel},
		{Name: "conflict", Acts: []perturbation.Act{foreignPod(), createInConflict(), removeForeignPod()}},
		{Name: "delete and recreate", Acts: []perturbation.Act{create(), recreate()}, Flicker: flickerSuspend},
		{Name: "orphan and adopt", Acts: []perturbation.Act{create(), deletePod(2), orphanAndRecreateContainer(2)}, Flicker: flickerLabel},
	}
	for _, scenario := range scenarios {
		scenario.Start = startImmortalContainers
		scenario.Resources = []schema.GroupVersionResource{containers, pods}
		scenario.Invariants = []perturbation.Invariant{
			{Name: "never two Pods of one ImmortalContainer", Check: neverTwoPods},
			{Name: "every start is counted once, before its Pod is created", Check: startsAreExact},
		}
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			perturbation.Test(t, testcluster.Shared(t), scenario)
		})
	}
}

// startImmortalContainers runs one instance of the controller for a namespace.
func startImmortalContainers(ctx context.Context, config *rest.Config, namespace string) error {
	client, kubeClient, err := clients(config)
	if err != nil {
		return err
	}
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	defer ours.Shutdown()
	kube := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, 0, kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = controller.ManagedSelector
		}))
	defer kube.Shutdown()
	recorder := controller.StartEvents(ctx, kubeClient).Recorder(scheme.Scheme, immortalcontainer.ControllerName)
	c, err := immortalcontainer.New(ctx, client, kubeClient, ours.Immortalcontainers().V1alpha1().ImmortalContainers(), kube.Core().V1().Pods(), recorder)
	if err != nil {
		return err
	}
	ours.StartWithContext(ctx)
	kube.StartWithContext(ctx)
	c.Run(ctx, 2)
	return nil
}

// The acts. Each waits for the state that the user expects.

func create() perturbation.Act {
	return perturbation.Act{Name: "create " + name, Do: createContainer, Until: ready(1)}
}

func createContainer(ctx context.Context, user *perturbation.User) error {
	_, err := user.Client.Resource(containers).Namespace(user.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "ImmortalContainer",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"image":   "nginx:latest",
			"backoff": map[string]any{"initialSeconds": int64(1), "maxSeconds": int64(2)},
		},
	}}, metav1.CreateOptions{})
	return err
}

func deletePod(starts int64) perturbation.Act {
	return perturbation.Act{
		Name: "delete its Pod",
		Do: func(ctx context.Context, user *perturbation.User) error {
			return user.Client.Resource(pods).Namespace(user.Namespace).Delete(ctx, podName, metav1.DeleteOptions{})
		},
		Until: ready(starts),
	}
}

// endPod writes the status that kubelet reports when the container exits.
func endPod(phase corev1.PodPhase, exitCode int64, starts int64) perturbation.Act {
	return perturbation.Act{
		Name: fmt.Sprintf("the container exits with %d", exitCode),
		Do: func(ctx context.Context, user *perturbation.User) error {
			pod, err := user.Get(ctx, pods, podName)
			if err != nil {
				return err
			}
			status, _, _ := unstructured.NestedMap(pod.Object, "status")
			status["phase"] = string(phase)
			status["conditions"] = []any{}
			status["containerStatuses"] = []any{map[string]any{
				"name": immortalcontainer.ContainerName, "image": "nginx:latest", "imageID": "", "ready": false, "restartCount": int64(0),
				"state": map[string]any{"terminated": map[string]any{"exitCode": exitCode, "reason": "Ended", "finishedAt": metav1.Now().UTC().Format("2006-01-02T15:04:05Z")}},
			}}
			pod.Object["status"] = status
			_, err = user.Client.Resource(pods).Namespace(user.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		},
		Until: ready(starts),
	}
}

func editSpec(act string, field string, value any, until func(context.Context, *perturbation.User) (bool, error)) perturbation.Act {
	return perturbation.Act{
		Name:  act,
		Do:    func(ctx context.Context, user *perturbation.User) error { return patchSpec(ctx, user, field, value) },
		Until: until,
	}
}

func patchSpec(ctx context.Context, user *perturbation.User, field string, value any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{field: value}})
	if err != nil {
		return err
	}
	_, err = user.Client.Resource(containers).Namespace(user.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func foreignPod() perturbation.Act {
	return perturbation.Act{
		Name: "another client creates a Pod of the name",
		Do: func(ctx context.Context, user *perturbation.User) error {
			_, err := user.Client.Resource(pods).Namespace(user.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": podName},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "theirs", "image": "nginx:latest"}}},
			}}, metav1.CreateOptions{})
			return err
		},
		Until: func(context.Context, *perturbation.User) (bool, error) { return true, nil },
	}
}

func createInConflict() perturbation.Act {
	return perturbation.Act{Name: "create " + name, Do: createContainer, Until: condition("Conflict", "True")}
}

func removeForeignPod() perturbation.Act {
	act := deletePod(1)
	act.Name = "delete the foreign Pod"
	return act
}

func recreate() perturbation.Act {
	return perturbation.Act{
		Name: "delete and recreate " + name,
		Do: func(ctx context.Context, user *perturbation.User) error {
			if err := user.Client.Resource(containers).Namespace(user.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			return createContainer(ctx, user)
		},
		Until: ready(1),
	}
}

// orphanAndRecreateContainer deletes the container, orphans its Pod, which is of that start, and creates the container again.
func orphanAndRecreateContainer(start int64) perturbation.Act {
	return perturbation.Act{
		Name: "delete " + name + " with --cascade=orphan, and recreate it",
		Do: func(ctx context.Context, user *perturbation.User) error {
			if err := deleteObject(containers, metav1.DeletePropagationOrphan)(ctx, user); err != nil {
				return err
			}
			if err := awaitGone(containers, name)(ctx, user); err != nil {
				return err
			}
			return createContainer(ctx, user)
		},
		Until: ready(start),
	}
}

// flickerLabel removes the label that the controller's informer selects by from the Pod, and restores it.
func flickerLabel(ctx context.Context, user *perturbation.User) error {
	for _, value := range []any{nil, controller.ManagedBy} {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{controller.LabelManagedBy: value}}})
		if err != nil {
			return err
		}
		_, err = user.Client.Resource(pods).Namespace(user.Namespace).Patch(ctx, podName, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil // there may be no Pod during a flicker
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flickerSuspend suspends the container and resumes it.
func flickerSuspend(ctx context.Context, user *perturbation.User) error {
	return errors.Join(patchSpec(ctx, user, "suspend", true), patchSpec(ctx, user, "suspend", nil))
}

// ready reports whether the container runs in its Pod of that start, and its status is up to date.
func ready(starts int64) func(context.Context, *perturbation.User) (bool, error) {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		container, err := user.Get(ctx, containers, name)
		if err != nil {
			return false, err
		}
		if reached, err := hasCondition(container, "Ready", "True"); !reached {
			return false, err
		}
		pod, err := user.Get(ctx, pods, podName)
		if err != nil {
			return false, err
		}
		counted, _, _ := unstructured.NestedInt64(container.Object, "status", "startTimes")
		if counted != starts || !metav1.IsControlledBy(pod, container) {
			return false, fmt.Errorf("got Ready with startTimes %d and the Pod's owners %v, want %d and the container", counted, pod.GetOwnerReferences(), starts)
		}
		return true, nil
	}
}

// condition reports whether the condition has the value.
func condition(conditionType, value string) func(context.Context, *perturbation.User) (bool, error) {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		container, err := user.Get(ctx, containers, name)
		if err != nil {
			return false, err
		}
		return hasCondition(container, conditionType, value)
	}
}

// hasCondition reports whether the condition has the value in a status of the current generation. The error is the reason why not.
func hasCondition(container *unstructured.Unstructured, conditionType, value string) (bool, error) {
	observed, _, _ := unstructured.NestedInt64(container.Object, "status", "observedGeneration")
	if observed != container.GetGeneration() {
		return false, fmt.Errorf("status is of generation %d, spec of %d", observed, container.GetGeneration())
	}
	conditions, _, _ := unstructured.NestedSlice(container.Object, "status", "conditions")
	for _, c := range conditions {
		if fields := c.(map[string]any); fields["type"] == conditionType {
			if fields["status"] == value {
				return true, nil
			}
			return false, fmt.Errorf("%s is %v: %v: %v", conditionType, fields["status"], fields["reason"], fields["message"])
		}
	}
	return false, fmt.Errorf("no condition %s", conditionType)
}

// suspended reports whether the container is suspended and its Pod deleted.
func suspended(ctx context.Context, user *perturbation.User) (bool, error) {
	container, err := user.Get(ctx, containers, name)
	if err != nil {
		return false, err
	}
	pod, _, _ := unstructured.NestedString(container.Object, "status", "currentPod")
	_, err = user.Get(ctx, pods, podName)
	return pod == "" && apierrors.IsNotFound(err), nil
}

// neverTwoPods checks that a Pod of an ImmortalContainer is created only after the one before is deleted.
func neverTwoPods(history []perturbation.Change) error {
	live := map[types.UID]types.UID{} // owner -> Pod
	for _, change := range history {
		if change.Resource != pods {
			continue
		}
		owner := metav1.GetControllerOf(change.Object)
		if owner == nil {
			continue
		}
		uid := change.Object.GetUID()
		switch {
		case change.Deleted:
			delete(live, owner.UID)
		case live[owner.UID] != "" && live[owner.UID] != uid:
			return fmt.Errorf("at version %s there are two Pods, %s and %s", change.Object.GetResourceVersion(), live[owner.UID], uid)
		default:
			live[owner.UID] = uid
		}
	}
	return nil
}

// startsAreExact checks that no Pod is created before its start is counted, that no two Pods have the same start, and that the final count
// is the number of created Pods. An ImmortalContainer that adopts a Pod counts on from the start of that Pod.
func startsAreExact(history []perturbation.Change) error {
	counted, made, ownerOf := map[types.UID]int64{}, map[types.UID]int64{}, map[types.UID]types.UID{}
	for _, change := range history {
		object := change.Object
		if change.Resource == containers {
			counted[object.GetUID()], _, _ = unstructured.NestedInt64(object.Object, "status", "startTimes")
			if change.Deleted {
				delete(counted, object.GetUID())
			}
			continue
		}
		owner := metav1.GetControllerOf(object)
		if owner == nil || ownerOf[object.GetUID()] == owner.UID {
			continue
		}
		adopted := ownerOf[object.GetUID()] != ""
		ownerOf[object.GetUID()] = owner.UID
		start, err := strconv.ParseInt(object.GetAnnotations()[immortalcontainer.AnnotationStart], 10, 64)
		if err != nil {
			return fmt.Errorf("reading the start of Pod %s: %w", object.GetUID(), err)
		}
		if adopted {
			made[owner.UID] = start
			continue
		}
		made[owner.UID]++
		if count, exists := counted[owner.UID]; exists && start > count {
			return fmt.Errorf("at version %s the Pod of start %d was created, but the count is %d", object.GetResourceVersion(), start, count)
		}
		if start != made[owner.UID] {
			return fmt.Errorf("at version %s got Pod %d with start %d, want the same number", object.GetResourceVersion(), made[owner.UID], start)
		}
	}
	for uid, count := range counted {
		if count != made[uid] {
			return fmt.Errorf("got the final count %d, want the number of created Pods, %d", count, made[uid])
		}
	}
	return nil
}
