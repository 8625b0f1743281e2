// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestTrimCache(t *testing.T) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "u", Labels: map[string]string{"app": "x"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1<<18),
				"ours": "kept",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Data: map[string]string{"kept": "as it is"},
	}
	factory := kubeinformers.NewSharedInformerFactory(fake.NewClientset(object), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	TrimCache(informer, "ours", "absent")
	factory.StartWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	for !informer.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	held, err := factory.Core().V1().ConfigMaps().Lister().ConfigMaps("default").Get("x")
	if err != nil {
		t.Fatal(err)
	}
	want := object.DeepCopy()
	want.ManagedFields, want.Annotations = nil, map[string]string{"ours": "kept"}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

func TestTombstonesAreNotTrimmed(t *testing.T) {
	trimmed := 0
	informer := &transformed{}
	TrimCacheOf(informer, func(*corev1.Pod) { trimmed++ })
	for _, object := range []any{&corev1.Pod{}, cache.DeletedFinalStateUnknown{Key: "default/x", Obj: &corev1.Pod{}}} {
		if got, err := informer.transform(object); err != nil || got != object {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if trimmed != 1 {
		t.Errorf("trimmed %d objects, want 1", trimmed)
	}
}

type transformed struct {
	cache.SharedInformer
	transform cache.TransformFunc
}

func (i *transformed) SetTransform(transform cache.TransformFunc) error {
	i.transform = transform
	return nil
}
