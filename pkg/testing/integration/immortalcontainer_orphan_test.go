// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

func TestImmortalContainerAdoptsOrphans(t *testing.T) {
	cluster := testcluster.Shared(t)
	runManager(t, cluster)
	for name, test := range map[string]func(*env){
		"same spec":              orphanIsKept,
		"another spec":           orphanOfAnotherSpec,
		"Pod without our marks":  orphanWithoutMarks,
		"orphan that is deleted": orphanIsDeleted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, cluster))
		})
	}
}

// orphan orphans the Pod of start 2 of the ImmortalContainer web, and returns its UID.
func orphan(e *env) types.UID {
	e.Helper()
	e.create(immortal("web"))
	e.awaitReady("web", 1)
	e.deletePod("web")
	_, pod := e.awaitReady("web", 2)
	e.kubectl("delete", "ic", "web", "--cascade=orphan", patience.Timeout)
	if left := e.pod("web"); left == nil || left.UID != pod.UID || len(left.OwnerReferences) > 0 {
		e.Fatalf("got Pod %+v, want an orphan", left)
	}
	return pod.UID
}

func orphanIsKept(e *env) {
	left := orphan(e)
	e.create(immortal("web"))
	if _, pod := e.awaitReady("web", 2); pod.UID != left {
		e.Errorf("got Pod %s, want %s", pod.UID, left)
	}
	e.awaitEvent("web", "Adopted")
	e.deletePod("web")
	e.awaitReady("web", 3)
	e.kubectl("delete", "ic", "web")
	e.eventually(func() string {
		if e.pod("web") != nil {
			return "the Pod still exists"
		}
		return ""
	})
}

func orphanOfAnotherSpec(e *env) {
	left := orphan(e)
	e.create(immortal("web", func(container *v1alpha1.ImmortalContainer) { container.Spec.Image = newImage }))
	e.eventually(func() string {
		if pod := e.pod("web"); pod == nil || pod.UID == left {
			return "the Pod was not replaced"
		}
		return ""
	})
	if _, pod := e.awaitReady("web", 3); pod.Spec.Containers[0].Image != newImage {
		e.Errorf("got image %s, want %s", pod.Spec.Containers[0].Image, newImage)
	}
	e.awaitEvent("web", "Adopted")
	e.awaitEvent("web", "Replaced")
}

func orphanWithoutMarks(e *env) {
	left := orphan(e)
	patch := []byte(`{"metadata":{"annotations":null}}`)
	if _, err := e.kube.CoreV1().Pods(e.namespace).Patch(e.Context(), "web-immortalpod", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
	e.create(immortal("web"))
	e.awaitCondition("web", v1alpha1.ConditionConflict, metav1.ConditionTrue, "ErrResourceExists")
	if pod := e.pod("web"); pod == nil || pod.UID != left || metav1.GetControllerOf(pod) != nil {
		e.Errorf("got Pod %+v, want it unchanged", pod)
	}
	if err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Delete(e.Context(), "web", metav1.DeleteOptions{}); err != nil {
		e.Error(err)
	}
}

// orphanIsDeleted: the Pod loses its owner while it is being deleted, so that it is not adopted again.
func orphanIsDeleted(e *env) {
	e.create(immortal("web"))
	_, pod := e.awaitReady("web", 1)
	patch := func(text string) {
		e.Helper()
		if _, err := e.kube.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			e.Fatal(err)
		}
	}
	patch(`{"metadata":{"finalizers":["example.com/holds"]}}`)
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(e.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	patch(`{"metadata":{"ownerReferences":null}}`)
	e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTermination)
	patch(`{"metadata":{"finalizers":null}}`)
	e.awaitReady("web", 2)
}
