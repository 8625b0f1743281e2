// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// With the rights of the tutorial alone, the server names the bindings that are missing, and ends.
func TestFarmMissingBindings(t *testing.T) {
	e := inSharedFarm(t)
	account := e.serviceAccount("tutorial")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: e.namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: "tutorial"}},
	}
	if _, err := e.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server := startFarmServer(t, account.WriteKubeconfig(t))
	if code := server.awaitEnd(t); code != 1 {
		t.Errorf("got exit code %d", code)
	}
	for _, wanted := range []string{
		account.User, "extension-apiserver-authentication-reader", "kube-system", "system:auth-delegator", "llamarecords", "namespaces",
		"validatingwebhookconfigurations", "mutatingadmissionpolicies", "manifests/farm",
	} {
		if !strings.Contains(server.log.String(), wanted) {
			t.Errorf("log: want %s in it, got: %s", wanted, server.log)
		}
	}
	if strings.Contains(server.log.String(), "goroutine ") {
		t.Error("the server has panicked")
	}
}

// Llamas in memory are lost in a restart, but resourceVersions continue to grow.
func TestFarmMemoryStorage(t *testing.T) {
	e := inSharedFarm(t)
	run := func() (*farmServer, versioned.Interface) {
		t.Helper()
		server := startFarmServer(t, e.farm.kubeconfig, "--llama-storage=memory")
		server.awaitReady(t, e.cluster)
		return server, server.client(t, e.cluster)
	}
	server, client := run()
	created, err := client.FarmV1alpha().Llamas(e.namespace).Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := e.llamas.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("Llamas in records: got %v, %v, want none", list, err)
	}
	if err := server.terminate(); err != nil {
		t.Error(err)
	}
	_, client = run()
	list, err := client.FarmV1alpha().Llamas(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Fatalf("after a restart: got %v, %v, want none", list, err)
	}
	if len(list.ResourceVersion) < len(created.ResourceVersion) || list.ResourceVersion <= created.ResourceVersion {
		t.Errorf("resourceVersion after a restart: got %s, want one larger than %s", list.ResourceVersion, created.ResourceVersion)
	}
	watcher, err := client.FarmV1alpha().Llamas(e.namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion})
	if err == nil {
		defer watcher.Stop()
		err = apierrors.FromObject(next(t, watcher).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from a version before the restart: got %v, want expired", err)
	}
}

// With --farmpods-require-pod-access a user who may not read Pods may not read FarmPods.
func TestFarmPodsCheckPodAccess(t *testing.T) {
	e := inSharedFarm(t)
	e.createPod("web", 1)
	account := e.serviceAccount("guest")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "guest"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{farmv1alpha.GroupName}, Resources: []string{"farmpods"}, Verbs: []string{"get", "list", "watch"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "guest"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "guest"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: "guest"}},
	}
	if _, err := e.kube.RbacV1().Roles(e.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.kube.RbacV1().RoleBindings(e.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	guests, err := versioned.NewForConfig(account.Config)
	if err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := guests.FarmV1alpha().FarmPods(e.namespace).Get(t.Context(), "farm-web", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	strict := startFarmServer(t, e.farm.kubeconfig, "--farmpods-require-pod-access")
	strict.awaitReady(t, e.cluster)
	guest, err := versioned.NewForConfig(strict.as(account.Config))
	if err != nil {
		t.Fatal(err)
	}
	reads := func(ctx context.Context) map[string]error {
		pods := guest.FarmV1alpha().FarmPods(e.namespace)
		_, getErr := pods.Get(ctx, "farm-web", metav1.GetOptions{})
		_, listErr := pods.List(ctx, metav1.ListOptions{})
		watcher, watchErr := pods.Watch(ctx, metav1.ListOptions{})
		if watchErr == nil {
			watcher.Stop()
		}
		return map[string]error{"get": getErr, "list": listErr, "watch": watchErr}
	}
	for verb, err := range reads(t.Context()) {
		if !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "pods") {
			t.Errorf("%s without the right to read Pods: got %v, want forbidden", verb, err)
		}
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}})
	if _, err := e.kube.RbacV1().Roles(e.namespace).Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string { // a denied right is cached for ten seconds
		for verb, err := range reads(t.Context()) {
			if err != nil {
				return fmt.Sprintf("%s: %v", verb, err)
			}
		}
		return ""
	})
}

// A Pod that is deleted gets SIGTERM immediately, and requests until all clients know that it is terminating. The server answers them, and
// reports that it is not ready.
func TestFarmShutdown(t *testing.T) {
	e := inSharedFarm(t)
	server := startFarmServer(t, e.farm.kubeconfig, "--shutdown-delay-duration=20s")
	server.awaitReady(t, e.cluster)
	e.createLlama(newLlama("dolly"))
	client := server.client(t, e.cluster)
	watcher, err := client.FarmV1alpha().Llamas(e.namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	var answered, failed atomic.Int32
	var lastFailure atomic.Value
	stop := make(chan struct{})
	var sending sync.WaitGroup
	for range 4 {
		sending.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := client.FarmV1alpha().Llamas(e.namespace).Get(t.Context(), "dolly", metav1.GetOptions{}); err != nil {
					failed.Add(1)
					lastFailure.Store(err.Error())
				}
				answered.Add(1)
			}
		})
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if _, err := server.get(t.Context(), e.cluster.Config(), "/readyz"); err == nil {
			return "the server still reports that it is ready"
		}
		return ""
	})
	notReady := answered.Load()
	if _, err := server.get(t.Context(), e.cluster.Config(), "/livez"); err != nil {
		t.Errorf("/livez: %v", err)
	}
	e.eventually(func() string {
		if more := answered.Load() - notReady; more < 100 {
			return fmt.Sprintf("%d requests were answered after the server was not ready, want 100", more)
		}
		return ""
	})
	close(stop)
	sending.Wait()
	if failed.Load() > 0 {
		t.Errorf("requests after SIGTERM: %d of %d failed, the last with: %v", failed.Load(), answered.Load(), lastFailure.Load())
	}
	if code := server.awaitEnd(t); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	for event := range watcher.ResultChan() {
		if event.Type == "ERROR" {
			t.Errorf("watch: got error %+v, want it to end without one", event.Object)
		}
	}
}
