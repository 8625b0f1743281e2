// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) {
	if command := os.Getenv(runsCommand); command != "" {
		if err := runCommand(command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := testcluster.Run(m, clusterOptions...)
	removeBinary()
	os.Exit(judgePrivileges(status))
}

// inCore returns an environment for a parallel test, in whose namespace the controllers of the Deployment core run.
func inCore(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	kubeconfig := operatorAccount(t, e.cluster).WriteKubeconfig(t)
	runManagerWith(t, func(options *manager.Options) { options.Kubeconfig, options.Namespace = kubeconfig, e.namespace })
	return e
}

// runManager runs the controllers of the Deployment core for all namespaces until the test and its subtests end, or until stop is called.
// It would also handle objects of other tests, so a test that calls it must not be parallel.
func runManager(t *testing.T, cluster *testcluster.Cluster) (stop func()) {
	t.Helper()
	t.Setenv("MILLWRIGHT_TEST_NAMESPACES", "all") // panics if the test is parallel
	kubeconfig := operatorAccount(t, cluster).WriteKubeconfig(t)
	return runManagerWith(t, func(options *manager.Options) { options.Kubeconfig = kubeconfig })
}

// runManagerWith runs the controllers of the Deployment core with changed options.
func runManagerWith(t *testing.T, change func(*manager.Options)) (stop func()) {
	t.Helper()
	options := manager.NewOptions()
	options.Controllers = core.controllers(t)
	change(options)
	options.LeaderElect = false
	options.ServingAddress = ""
	stopManager := startManager(t, options)
	stop = sync.OnceFunc(func() {
		if err := stopManager(); err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// startManager runs a manager until stop is called, which returns its error.
func startManager(t testing.TB, options *manager.Options) (stop func() error) {
	t.Helper()
	config, err := options.Config("test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx, config) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// freeAddress returns an address of loopback on which nothing serves.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// env is the environment of a test: a namespace of its own, and clients with the rights of an administrator.
type env struct {
	*testing.T
	cluster   *testcluster.Cluster
	namespace string
	client    versioned.Interface
	kube      kubernetes.Interface
}

func newEnv(t *testing.T, cluster *testcluster.Cluster) *env {
	t.Helper()
	client, err := versioned.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &env{T: t, cluster: cluster, namespace: cluster.Namespace(t), client: client, kube: kube}
}

// eventually waits until check returns "". It fails the test with the last complaint.
func (e *env) eventually(check func() (complaint string)) {
	e.Helper()
	if complaint := patience.Eventually(e.Context(), check); complaint != "" {
		e.Fatal(complaint)
	}
}

func (e *env) create(container *v1alpha1.ImmortalContainer) *v1alpha1.ImmortalContainer {
	e.Helper()
	created, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Create(e.Context(), container, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func (e *env) get(name string) *v1alpha1.ImmortalContainer {
	e.Helper()
	container, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return container
}

// patch applies a merge patch to the ImmortalContainer.
func (e *env) patch(name, patch string) {
	e.Helper()
	containers := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace)
	_, err := containers.Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// pod returns the Pod of the ImmortalContainer, or nil if it does not exist.
func (e *env) pod(name string) *corev1.Pod {
	e.Helper()
	pod, err := e.kube.CoreV1().Pods(e.namespace).Get(e.Context(), name+"-immortalpod", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return pod
}

func (e *env) deletePod(name string) {
	e.Helper()
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(e.Context(), name+"-immortalpod", metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
}

// awaitReady waits until the ImmortalContainer is Ready after this number of starts, and returns it with its Pod.
func (e *env) awaitReady(name string, starts int64) (*v1alpha1.ImmortalContainer, *corev1.Pod) {
	e.Helper()
	var container *v1alpha1.ImmortalContainer
	e.eventually(func() string {
		container = e.get(name)
		switch {
		case container.Status.ObservedGeneration != container.Generation:
			return "the status is of an old generation"
		case container.Status.StartTimes < starts || !meta.IsStatusConditionTrue(container.Status.Conditions, v1alpha1.ConditionReady):
			return describe(container)
		}
		return ""
	})
	if container.Status.StartTimes != starts {
		e.Fatalf("startTimes: got %d, want %d", container.Status.StartTimes, starts)
	}
	pod := e.pod(name)
	if pod == nil || !metav1.IsControlledBy(pod, container) {
		e.Fatalf("Pod of a Ready ImmortalContainer: got %v, want one that it controls", pod)
	}
	return container, pod
}

// awaitCondition waits until the condition has the status and the reason, and returns its message.
func (e *env) awaitCondition(name, conditionType string, status metav1.ConditionStatus, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		container := e.get(name)
		condition := meta.FindStatusCondition(container.Status.Conditions, conditionType)
		if condition == nil || condition.Status != status || condition.Reason != reason {
			return describe(container)
		}
		message = condition.Message
		return ""
	})
	return message
}

// awaitEvent waits for an event of the reason on the ImmortalContainer, and returns its message.
func (e *env) awaitEvent(name, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		for _, event := range e.events(name) {
			if event.Reason == reason {
				message = event.Message
				return ""
			}
		}
		return "no event " + reason
	})
	return message
}

func (e *env) events(name string) []corev1.Event {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ImmortalContainer,involvedObject.name=" + name})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// beginDeletion deletes a namespace, and does not wait until it is gone.
func (e *env) beginDeletion(namespace string) {
	e.Helper()
	for _, log := range requests {
		log.expectForbiddenIn(namespace)
	}
	if err := e.kube.CoreV1().Namespaces().Delete(e.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
}

// deleteNamespace deletes the test's namespace, and waits until it is gone.
func (e *env) deleteNamespace() {
	e.Helper()
	e.beginDeletion(e.namespace)
	e.eventually(func() string {
		namespace, err := e.kube.CoreV1().Namespaces().Get(e.Context(), e.namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return fmt.Sprintf("the namespace still exists: %+v", namespace.Status)
	})
}

// kubectl runs kubectl in the test's namespace and returns its output.
func (e *env) kubectl(args ...string) string {
	e.Helper()
	return e.cluster.Kubectl(e, append([]string{"--namespace", e.namespace}, args...)...)
}
