// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

const (
	countLlamas  = "count/llamas.farm.example.com"
	countRecords = "count/llamarecords.storage.farm.example.com"
)

// The quota controller counts nothing while one of the resources that it watches does not sync. A quota of Pods shows whether all do. The
// controller looks for new resources every 30 seconds.
func TestFarmQuota(t *testing.T) {
	e := inSharedFarm(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "farm"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			countLlamas: resource.MustParse("100"), countRecords: resource.MustParse("3"), "pods": resource.MustParse("10"),
		}},
	}
	quotas := e.kube.CoreV1().ResourceQuotas(e.namespace)
	used := func(llamas, records, pods int) {
		t.Helper()
		e.eventually(func() string {
			now, err := quotas.Get(t.Context(), "farm", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[corev1.ResourceName]int{countLlamas: llamas, countRecords: records, "pods": pods} {
				if count, ok := now.Status.Used[name]; !ok || count.Value() != int64(want) {
					return fmt.Sprintf("used: got %v, want %d of %s", now.Status.Used, want, name)
				}
			}
			return ""
		})
	}
	// The controller counts a new quota once, without the resources that it does not know yet, and not again for five minutes: create it
	// until all are counted.
	e.eventually(func() string {
		now, err := quotas.Get(t.Context(), "farm", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = quotas.Create(t.Context(), quota, metav1.CreateOptions{})
		case err == nil && len(now.Status.Used) == len(quota.Spec.Hard):
			return ""
		case err == nil && len(now.Status.Used) > 0:
			err = quotas.Delete(t.Context(), "farm", metav1.DeleteOptions{})
		}
		return fmt.Sprintf("used: got %v, want a count of each of %v: %v", now.Status.Used, quota.Spec.Hard, err)
	})
	used(0, 0, 0)
	for _, name := range []string{"amy", "bea", "cora"} {
		e.createLlama(newLlama(name))
	}
	e.createPod("one", 1)
	_, err := e.llamas.Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: farm") {
		t.Errorf("create of one Llama more than the quota of records allows: got %v, want forbidden", err)
	}
	// Usage that no admission reserves is counted again after a deletion.
	if err := e.llamas.Delete(t.Context(), "cora", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(t.Context(), "one", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	used(2, 2, 0)
	e.createLlama(newLlama("dolly"))
}

// belongsTo returns a reference to the owner that blocks its foreground deletion.
func belongsTo(apiVersion, kind string, owner metav1.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(true)}}
}

// createConfigMap creates a ConfigMap with owners. The API server refuses owners of a new kind for up to 30 seconds after it was installed.
func (e *farmEnv) createConfigMap(name string, owners []metav1.OwnerReference) *corev1.ConfigMap {
	e.Helper()
	var created *corev1.ConfigMap
	e.eventually(func() (complaint string) {
		var err error
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
		created, err = e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), configMap, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return created
}

func (e *farmEnv) configMap(name string) (*corev1.ConfigMap, error) {
	return e.kube.CoreV1().ConfigMaps(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
}

func TestFarmOwnerDeleted(t *testing.T) {
	e := inSharedFarm(t)
	owner := e.createConfigMap("owner", nil)
	e.createLlama(newLlama("dolly", func(llama *farmv1alpha.Llama) { llama.OwnerReferences = belongsTo("v1", "ConfigMap", owner) }))
	e.createLlama(newLlama("emma"))
	if err := e.kube.CoreV1().ConfigMaps(e.namespace).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone("dolly")
	e.llama("emma")
	e.createLlama(newLlama("orphan", func(llama *farmv1alpha.Llama) { llama.OwnerReferences = belongsTo("v1", "ConfigMap", owner) }))
	e.awaitGone("orphan") // its owner was deleted before it was created
}

func TestFarmForegroundDeletion(t *testing.T) {
	e := inSharedFarm(t)
	llama := e.createLlama(newLlama("dolly"))
	owned := e.createConfigMap("owned", belongsTo("farm.example.com/v1alpha", "Llama", llama))
	hold := []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`)
	if _, err := e.kube.CoreV1().ConfigMaps(e.namespace).Patch(t.Context(), owned.Name, types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.kubectl("delete", "llama", "dolly", "--cascade=foreground", "--wait=false")
	e.eventually(func() string {
		if now, err := e.configMap("owned"); err != nil || now.DeletionTimestamp == nil {
			return fmt.Sprintf("the dependent is not being deleted: %v", err)
		}
		return ""
	})
	if now := e.llama("dolly"); now.DeletionTimestamp == nil || len(now.Finalizers) != 1 || now.Finalizers[0] != metav1.FinalizerDeleteDependents {
		t.Errorf("while it waits for its dependent: got %+v, want the finalizer foregroundDeletion", now.ObjectMeta)
	}
	if _, err := e.kube.CoreV1().ConfigMaps(e.namespace).Patch(t.Context(), owned.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone("dolly")
}

func TestFarmDependents(t *testing.T) {
	e := inSharedFarm(t)
	for _, name := range []string{"leaver", "giver"} {
		e.createConfigMap("of-"+name, belongsTo("farm.example.com/v1alpha", "Llama", e.createLlama(newLlama(name))))
	}
	e.kubectl("delete", "llama", "giver", "--cascade=orphan")
	e.kubectl("delete", "llama", "leaver", "--cascade=background")
	e.eventually(func() string {
		if _, err := e.configMap("of-leaver"); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the dependent still exists: %v", err)
		}
		return ""
	})
	kept, err := e.configMap("of-giver")
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.OwnerReferences) > 0 || kept.DeletionTimestamp != nil {
		t.Errorf("orphaned dependent: got %+v, want no owner", kept.ObjectMeta)
	}
}

func TestFarmFinalizers(t *testing.T) {
	e := inSharedFarm(t)
	created := e.createLlama(newLlama("dolly", func(llama *farmv1alpha.Llama) { llama.Finalizers = []string{"example.com/shear"} }))
	e.kubectl("delete", "llama", "dolly", "--wait=false")
	held := e.llama("dolly")
	if held.DeletionTimestamp == nil || held.UID != created.UID || ptr.Deref(held.DeletionGracePeriodSeconds, -1) != 0 || held.Generation != 2 {
		t.Errorf("deleted with a finalizer: got %+v", held.ObjectMeta)
	}
	// As with every kind: a terminating object gets no new finalizers, and its name is still taken.
	held.Finalizers = append(held.Finalizers, "example.com/late")
	if _, err := e.llamas.Update(t.Context(), held, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("update with one more finalizer: got %v, want it refused", err)
	}
	if _, err := e.llamas.Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create of another one of its name: got %v, want already exists", err)
	}
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("0e5f"))}}
	if err := e.llamas.Delete(t.Context(), "dolly", wrong); !apierrors.IsConflict(err) {
		t.Errorf("delete with another UID: got %v, want a conflict", err)
	}
	if err := e.llamas.Delete(t.Context(), "dolly", metav1.DeleteOptions{}); err != nil {
		t.Errorf("second delete: %v", err)
	}
	e.kubectl("patch", "llama", "dolly", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	e.awaitGone("dolly")
	records, err := e.client.FarmStorageV1().LlamaRecords(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(records.Items) > 0 {
		t.Errorf("records: got %v, %v, want none", records, err)
	}
}

// The namespace controller deletes the records as well as the Llamas.
func TestFarmNamespaceDeletion(t *testing.T) {
	e := inSharedFarm(t)
	other := newFarmEnv(t, e.farm)
	for i := range 20 {
		other.createLlama(newLlama(fmt.Sprintf("llama-%d", i)))
	}
	other.createLlama(newLlama("held", func(llama *farmv1alpha.Llama) { llama.Finalizers = []string{"example.com/shear"} }))
	e.beginDeletion(other.namespace)
	e.eventually(func() string {
		list, err := other.llamas.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].DeletionTimestamp == nil {
			return fmt.Sprintf("got %d Llamas, want the one with a finalizer", len(list.Items))
		}
		return ""
	})
	e.eventually(func() string { // until the namespace controller has deleted the records too
		namespace, err := e.kube.CoreV1().Namespaces().Get(t.Context(), other.namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range namespace.Status.Conditions {
			remaining := condition.Type == corev1.NamespaceFinalizersRemaining && condition.Status == corev1.ConditionTrue
			if remaining && strings.Contains(condition.Message, "example.com/shear") {
				return ""
			}
		}
		return fmt.Sprintf("conditions of the namespace: got %+v, want the remaining finalizer", namespace.Status.Conditions)
	})
	if held := other.llama("held"); held.DeletionTimestamp == nil || len(held.Finalizers) != 1 {
		t.Errorf("Llama with a finalizer: got %+v, want it terminating", held.ObjectMeta)
	}
	if _, err := other.llamas.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := e.kube.CoreV1().Namespaces().Get(t.Context(), other.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace still exists: %v", err)
		}
		return ""
	})
}
