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

// The quota controller counts nothing at all while one resource that it watches does not sync: Pods, which have nothing to do with Llamas,
// tell whether all do. It looks every half minute which resources there are.
func TestFarmQuota(t *testing.T) {
	e := inSharedFarm(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "farm"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			countLlamas: resource.MustParse("100"), countRecords: resource.MustParse("3"), "pods": resource.MustParse("10"),
		}},
	}
	if _, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(llamas, records, pods int) {
		t.Helper()
		e.eventually(func() string {
			now, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Get(t.Context(), "farm", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[corev1.ResourceName]int{countLlamas: llamas, countRecords: records, "pods": pods} {
				if count, ok := now.Status.Used[name]; !ok || count.Value() != int64(want) {
					return fmt.Sprintf("%s: %s is used, not %d", name, &count, want)
				}
			}
			return ""
		})
	}
	used(0, 0, 0)
	for _, name := range []string{"amy", "bea", "cora"} {
		e.createLlama(newLlama(name))
	}
	e.createPod("one", 1)
	_, err := e.llamas.Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: farm") {
		t.Errorf("one more than the quota of records has room for: %v", err)
	}
	// What nobody reserves is counted when something of it goes.
	if err := e.llamas.Delete(t.Context(), "cora", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(t.Context(), "one", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	used(2, 2, 0)
	e.createLlama(newLlama("dolly"))
}

// belongsTo makes it belong to the object, which cannot go in the foreground before it.
func belongsTo(apiVersion, kind string, owner metav1.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(true)}}
}

// createConfigMap makes one that belongs to somebody. For up to half a minute after a kind was installed the API server refuses that.
func (e *farmEnv) createConfigMap(name string, owners []metav1.OwnerReference) *corev1.ConfigMap {
	e.Helper()
	var created *corev1.ConfigMap
	e.eventually(func() (complaint string) {
		var err error
		created, err = e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}, metav1.CreateOptions{})
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
	e.awaitGone("orphan") // whose owner had gone before it came
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
			return fmt.Sprintf("what it owns is not deleted: %v", err)
		}
		return ""
	})
	if now := e.llama("dolly"); now.DeletionTimestamp == nil || len(now.Finalizers) != 1 || now.Finalizers[0] != metav1.FinalizerDeleteDependents {
		t.Errorf("while it waits it is %+v", now.ObjectMeta)
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
			return fmt.Sprintf("what was owned is still there: %v", err)
		}
		return ""
	})
	kept, err := e.configMap("of-giver")
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.OwnerReferences) > 0 || kept.DeletionTimestamp != nil {
		t.Errorf("what was given away is %+v", kept.ObjectMeta)
	}
}

func TestFarmFinalizers(t *testing.T) {
	e := inSharedFarm(t)
	made := e.createLlama(newLlama("dolly", func(llama *farmv1alpha.Llama) { llama.Finalizers = []string{"example.com/shear"} }))
	e.kubectl("delete", "llama", "dolly", "--wait=false")
	held := e.llama("dolly")
	if held.DeletionTimestamp == nil || held.UID != made.UID || ptr.Deref(held.DeletionGracePeriodSeconds, -1) != 0 || held.Generation != 2 {
		t.Errorf("it is %+v", held.ObjectMeta)
	}
	// As with every kind: who is deleted gets no new finalizers, and cannot be made anew yet.
	held.Finalizers = append(held.Finalizers, "example.com/late")
	if _, err := e.llamas.Update(t.Context(), held, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("one more finalizer: %v", err)
	}
	if _, err := e.llamas.Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("another one of its name: %v", err)
	}
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("0e5f"))}}
	if err := e.llamas.Delete(t.Context(), "dolly", wrong); !apierrors.IsConflict(err) {
		t.Errorf("deleting one of another UID: %v", err)
	}
	if err := e.llamas.Delete(t.Context(), "dolly", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting it once more: %v", err)
	}
	e.kubectl("patch", "llama", "dolly", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	e.awaitGone("dolly")
	records, err := e.client.FarmStorageV1().LlamaRecords(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(records.Items) > 0 {
		t.Errorf("its record: %v, %v", records, err)
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
	if err := e.kube.CoreV1().Namespaces().Delete(t.Context(), other.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		list, err := other.llamas.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].DeletionTimestamp == nil {
			return fmt.Sprintf("there are %d Llamas", len(list.Items))
		}
		return ""
	})
	e.eventually(func() string { // the namespace controller has come as far as to the records
		namespace, err := e.kube.CoreV1().Namespaces().Get(t.Context(), other.namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range namespace.Status.Conditions {
			if condition.Type == corev1.NamespaceFinalizersRemaining && condition.Status == corev1.ConditionTrue && strings.Contains(condition.Message, "example.com/shear") {
				return ""
			}
		}
		return fmt.Sprintf("the namespace does not say what it waits for: %+v", namespace.Status.Conditions)
	})
	if held := other.llama("held"); held.DeletionTimestamp == nil || len(held.Finalizers) != 1 {
		t.Errorf("it is %+v", held.ObjectMeta)
	}
	if _, err := other.llamas.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := e.kube.CoreV1().Namespaces().Get(t.Context(), other.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace is still there: %v", err)
		}
		return ""
	})
}
