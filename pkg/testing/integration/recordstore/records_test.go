// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	farmstoragev1 "millwright.dev/pkg/apis/farmstorage/v1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// eventually waits until check returns "". It fails the test with the last complaint.
func eventually(t testing.TB, check func() (complaint string)) {
	t.Helper()
	if complaint := patience.Eventually(t.Context(), check); complaint != "" {
		t.Fatal(complaint)
	}
}

func clients(t testing.TB, cluster *testcluster.Cluster) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	core, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := versioned.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return core, ours
}

func newLlama(namespace, name string) *farmv1alpha.Llama {
	return &farmv1alpha.Llama{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Labels: map[string]string{"breed": "suri"}, Finalizers: []string{"farm.example.com/shear"}},
		Spec:       farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5},
	}
}

func create(t testing.TB, store storage.Interface, llama *farmv1alpha.Llama) (*farmv1alpha.Llama, error) {
	t.Helper()
	out := &farmv1alpha.Llama{}
	return out, store.Create(t.Context(), fmt.Sprintf("/llamas/%s/%s", llama.Namespace, llama.Name), llama, out, 0)
}

func TestRecordMetadata(t *testing.T) {
	cluster := testcluster.Shared(t)
	store, namespace := newStore(t, cluster), cluster.Namespace(t)
	_, ours := clients(t, cluster)
	created, err := create(t, store, newLlama(namespace, "dolly"))
	if err != nil {
		t.Fatal(err)
	}
	relabel := storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		object.(*farmv1alpha.Llama).Labels = map[string]string{"shorn": "yes"}
		return object, nil
	})
	for _, labels := range []map[string]string{{"breed": "suri"}, {"shorn": "yes"}} {
		record, err := ours.FarmStorageV1().LlamaRecords(namespace).Get(t.Context(), "dolly", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(labels, record.Labels) || record.ResourceVersion != created.ResourceVersion || record.UID == created.UID ||
			len(record.Finalizers)+len(record.OwnerReferences)+len(record.Annotations) != 0 {
			t.Errorf("metadata of the record: got %+v, want only the labels and the version of %+v", record.ObjectMeta, created.ObjectMeta)
		}
		if text := string(record.Spec.Object.Raw); strings.Contains(text, "resourceVersion") || !strings.Contains(text, `"uid":"uid"`) {
			t.Errorf("content of the record: got %s, want the Llama without its resourceVersion", text)
		}
		// The managedFields of the record do not list the fields of the Llama: records would be twice as large.
		if fields := record.ManagedFields[0].FieldsV1.GetRawString(); strings.Contains(fields, "f:weight") || !strings.Contains(fields, "f:object") {
			t.Errorf("managedFields of the record: got %s", fields)
		}
		if err := store.GuaranteedUpdate(t.Context(), "/llamas/"+namespace+"/dolly", created, false, nil, relabel, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInvalidRecord(t *testing.T) {
	cluster := testcluster.Shared(t)
	store, namespace := newStore(t, cluster), cluster.Namespace(t)
	_, ours := clients(t, cluster)
	if _, err := create(t, store, newLlama(namespace, "well")); err != nil {
		t.Fatal(err)
	}
	predicate := storage.Everything
	w, err := store.Watch(t.Context(), "/llamas/"+namespace, storage.ListOptions{Recursive: true, Predicate: predicate, ResourceVersion: current(t, store)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	record := &farmstoragev1.LlamaRecord{ObjectMeta: metav1.ObjectMeta{Name: "ill"}}
	record.Spec.Object.Raw = []byte(`{"kind":"Llama","apiVersion":"farm.example.com/v1alpha","spec":{"weight":"heavy"}}`)
	if _, err := ours.FarmStorageV1().LlamaRecords(namespace).Create(t.Context(), record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	key, want := "/llamas/"+namespace+"/ill", "kubectl delete llamarecords.storage.farm.example.com -n "+namespace+" ill"
	event := <-w.ResultChan()
	for name, err := range map[string]error{
		"get":    store.Get(t.Context(), key, storage.GetOptions{}, &farmv1alpha.Llama{}),
		"list":   store.GetList(t.Context(), "/llamas/"+namespace, storage.ListOptions{Recursive: true, Predicate: predicate}, &farmv1alpha.LlamaList{}),
		"delete": store.Delete(t.Context(), key, &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}),
		"watch":  apierrors.FromObject(event.Object),
	} {
		if !strings.Contains(err.Error(), want) || name != "watch" && !storage.IsCorruptObject(err) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	options := storage.DeleteOptions{ExpectTransformOrDecodeError: true}
	if err := store.Delete(t.Context(), key, &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, nil, options); err != nil {
		t.Errorf("deleting a record that cannot be decoded: %v", err)
	}
	list := &farmv1alpha.LlamaList{}
	if err := store.GetList(t.Context(), "/llamas/"+namespace, storage.ListOptions{Recursive: true, Predicate: predicate}, list); err != nil || len(list.Items) != 1 {
		t.Errorf("list after the deletion: got %d, %v, want 1", len(list.Items), err)
	}
}

func current(t testing.TB, store storage.Interface) string {
	t.Helper()
	resourceVersion, err := store.GetCurrentResourceVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resourceVersion)
}

func TestTerminatingNamespace(t *testing.T) {
	cluster := testcluster.Shared(t)
	store, namespace := newStore(t, cluster), cluster.Namespace(t)
	core, _ := clients(t, cluster)
	created, err := create(t, store, newLlama(namespace, "dolly"))
	if err != nil {
		t.Fatal(err)
	}
	options := storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: created.ResourceVersion}
	w, err := store.Watch(t.Context(), "/llamas/"+namespace, options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	// The ConfigMap keeps the namespace terminating until the test has seen it.
	holding := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holding", Finalizers: []string{"farm.example.com/holding"}}}
	if _, err := core.CoreV1().ConfigMaps(namespace).Create(t.Context(), holding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := core.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	event := <-w.ResultChan()
	if last, ok := event.Object.(*farmv1alpha.Llama); event.Type != watch.Deleted || !ok || last.Name != "dolly" || last.UID != created.UID {
		t.Errorf("got event %s %+v, want the deletion of dolly", event.Type, event.Object)
	}
	_, err = create(t, store, newLlama(namespace, "late"))
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || !strings.HasPrefix(err.Error(), `llamas.farm.example.com "late" is forbidden`) {
		t.Errorf("create in a terminating namespace: got %v, want forbidden", err)
	}
	holding.Finalizers = nil
	if _, err := core.CoreV1().ConfigMaps(namespace).Update(t.Context(), holding, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	_, err = create(t, store, newLlama("nowhere", "dolly"))
	if status := apierrors.APIStatus(nil); !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details.Kind != "namespaces" {
		t.Errorf("create in a namespace that does not exist: got %v, want not found", err)
	}
}

func TestQuota(t *testing.T) {
	cluster := testcluster.Shared(t)
	store, namespace := newStore(t, cluster), cluster.Namespace(t)
	core, _ := clients(t, cluster)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}}
	quota.Spec.Hard = corev1.ResourceList{"count/llamarecords.storage.farm.example.com": resource.MustParse("0")}
	quotas := core.CoreV1().ResourceQuotas(namespace)
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The test does this for the quota controller, which would take longer.
	status, err := json.Marshal(map[string]any{"status": corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quotas.Patch(t.Context(), quota.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		_, err := create(t, store, newLlama(namespace, "dolly"))
		want := `llamas.farm.example.com "dolly" is forbidden: exceeded quota: few, requested: count/llamarecords.storage.farm.example.com=1`
		if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want) {
			return fmt.Sprintf("create: got %v, want %q", err, want)
		}
		return ""
	})
}

func TestErrorsNameRemedy(t *testing.T) {
	cluster := testcluster.Start(t)
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "-n", namespace, "create", "serviceaccount", "norights")
	poor, rich := unusedStore(t, cluster.Account(t, namespace, "norights").Config), unusedStore(t, cluster.Config())
	for name, err := range map[string]error{
		"ready": poor.ReadinessCheck(),
		"get":   poor.Get(t.Context(), "/llamas/"+namespace+"/dolly", storage.GetOptions{IgnoreNotFound: true}, &farmv1alpha.Llama{}),
	} {
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "kubectl apply -k manifests/farm") {
			t.Errorf("%s without rights: got %v, want the command that grants them", name, err)
		}
	}
	for name, err := range map[string]error{
		"ready": rich.ReadinessCheck(),
		"get":   rich.Get(t.Context(), "/llamas/"+namespace+"/dolly", storage.GetOptions{IgnoreNotFound: true}, &farmv1alpha.Llama{}),
		"list":  rich.GetList(t.Context(), "/llamas", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &farmv1alpha.LlamaList{}),
	} {
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "kubectl apply --server-side -f manifests/00-crds") {
			t.Errorf("%s without the CRD: got %v, want the command that installs it", name, err)
		}
	}
	cluster.InstallCRDs(t, "manifests/00-crds")
	eventually(t, func() string {
		if err := rich.ReadinessCheck(); err != nil {
			return fmt.Sprintf("with the CRD: got %v, want no error", err)
		}
		return ""
	})
	eventually(t, func() string {
		if _, err := create(t, rich, newLlama(namespace, "dolly")); err != nil {
			return fmt.Sprintf("with the CRD: got %v, want no error", err)
		}
		return ""
	})
}
