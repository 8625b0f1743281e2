// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestRestartAfterCompaction(t *testing.T) {
	t.Parallel()
	cluster := Start(t)
	namespace := cluster.Namespace(t)
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client.CoreV1().ConfigMaps(namespace)
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		created, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	first := create("first")
	create("second")
	cluster.Compact(t)
	cluster.Restart(t)
	if _, err := configMaps.Get(t.Context(), "second", metav1.GetOptions{}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	watcher, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		event := <-watcher.ResultChan()
		watcher.Stop()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v from a watch of an old version, want Expired", err)
	}
}

func TestFullEtcdRefusesWrites(t *testing.T) {
	t.Parallel()
	cluster := Start(t)
	namespace := cluster.Namespace(t)
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	create := func() error {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		return err
	}
	cluster.FillEtcd(t)
	if err := create(); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Errorf("got %v while etcd is full, want database space exceeded", err)
	}
	cluster.MakeRoom(t)
	if err := create(); err != nil {
		t.Errorf("got %v after MakeRoom, want success", err)
	}
}
