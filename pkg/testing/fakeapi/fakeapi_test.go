// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

func TestFakeConforms(t *testing.T) {
	server := New(t, ConfigMaps, Ingresses)
	TestConformance(t, server.Config(), "ns")
}

// newServer returns a server of Pods, with a client.
func newServer(t *testing.T) (*Server, Objects[corev1.Pod], kubernetes.Interface) {
	server := New(t, Pods)
	return server, Of[corev1.Pod](server, Pods), kubernetes.NewForConfigOrDie(server.Config())
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestGracefulDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pods, client := newServer(t)
		pods.Create(podNamed("a"))
		if err := client.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if at := pods.Get("ns", "a").DeletionTimestamp; at == nil || time.Until(at.Time) != 30*time.Second {
			t.Errorf("the Pod terminates until %v, want in 30 s", at)
		}
		pods.Remove("ns", "a")
		pods.Create(podNamed("a"))
		pods.Update("ns", "a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		if err := client.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil || pods.Get("ns", "a") != nil {
			t.Errorf("a Pod that has failed is there after its deletion: %v", err)
		}
	})
}

func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pods, client := newServer(t)
		pods.Create(podNamed("a"))
		before := server.Version()
		factory := informers.NewSharedInformerFactory(client, 0)
		lister := factory.Core().V1().Pods().Lister()
		t.Cleanup(factory.Shutdown)
		factory.StartWithContext(t.Context())
		want := func(what string, names ...string) {
			t.Helper()
			synctest.Wait()
			list, _ := lister.Pods("ns").List(labels.Everything())
			var got []string
			for _, pod := range list {
				got = append(got, pod.Name)
			}
			if slices.Sort(got); !slices.Equal(got, names) {
				t.Errorf("%s the cache has %v, want %v", what, got, names)
			}
		}
		want("at first", "a")
		server.Freeze()
		pods.Create(podNamed("b"))
		pods.Create(podNamed("c"))
		want("frozen", "a")
		if !server.Release(Pods.GroupVersionResource) {
			t.Error("no change is held back")
		}
		want("one change later", "a", "b")
		server.Thaw()
		want("thawed", "a", "b", "c")
		if server.Release(Pods.GroupVersionResource) {
			t.Error("a change is held back after all")
		}
		server.FreezeAt(before)
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("a list from the past has %d Pods (%v), want 1", len(list.Items), err)
		}
	})
}

func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pods, client := newServer(t)
		create := func(name string) error {
			_, err := client.CoreV1().Pods("ns").Create(t.Context(), podNamed(name), metav1.CreateOptions{})
			return err
		}
		server.Fail("create pods", apierrors.NewInternalError(errors.New("etcd is away")), nil, errors.New("connection refused"))
		if err := create("a"); !apierrors.IsInternalError(err) {
			t.Errorf("the first create: %v", err)
		}
		if err := create("a"); err != nil {
			t.Errorf("the second create: %v", err)
		}
		if err := create("b"); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("the third create: %v", err)
		}
		server.Lose("create pods", errors.New("unexpected EOF"))
		if err := create("c"); err == nil || pods.Get("ns", "c") == nil {
			t.Errorf("the create whose answer is lost: %v, leaves %v", err, pods.Get("ns", "c"))
		}
		got, _ := server.TakeLog()
		want := []string{"create pods a: Internal error occurred: etcd is away", "create pods a", "create pods b: connection refused", "create pods c"}
		if !slices.Equal(got, want) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	})
}
