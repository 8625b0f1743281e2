// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	typedfarm "millwright.dev/pkg/generated/clientset/versioned/typed/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// sharedFarm is the farm of most tests. Each test has a namespace of its own and does not disturb the others. The farm has a cluster of
// its own, because every client of a cluster is affected when the server of an APIService is away.
var sharedFarm = struct {
	cluster *testcluster.Lazy
	mu      sync.Mutex
	tried   bool
	farm    *farm // nil if it did not start
}{cluster: testcluster.NewLazy(clusterOptions...)}

// farmEnv is the environment of a test of the farm: a namespace, and clients with the rights of an administrator.
type farmEnv struct {
	*env
	farm   *farm
	llamas typedfarm.LlamaInterface
	pods   typedfarm.FarmPodInterface
}

// inSharedFarm returns an environment for a parallel test that shares the farm with other tests.
func inSharedFarm(t *testing.T) *farmEnv {
	t.Helper()
	t.Parallel()
	cluster := sharedFarm.cluster.Get(t)
	sharedFarm.mu.Lock()
	defer sharedFarm.mu.Unlock()
	if !sharedFarm.tried {
		sharedFarm.tried = true
		started := installFarm(t, cluster)
		cluster.BeforeStop(started.stop)
		started.start(t)
		sharedFarm.farm = started
	}
	if sharedFarm.farm == nil {
		t.Fatal("the farm has not started: see the first test that uses it")
	}
	return newFarmEnv(t, sharedFarm.farm)
}

func newFarmEnv(t *testing.T, f *farm) *farmEnv {
	t.Helper()
	e := newEnv(t, f.cluster)
	farm := e.client.FarmV1alpha()
	return &farmEnv{env: e, farm: f, llamas: farm.Llamas(e.namespace), pods: farm.FarmPods(e.namespace)}
}

// newLlama returns a Llama of 31.4 kg and half a metre.
func newLlama(name string, changes ...func(*farmv1alpha.Llama)) *farmv1alpha.Llama {
	llama := &farmv1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5}}
	for _, change := range changes {
		change(llama)
	}
	return llama
}

// labelled returns a change that sets a label.
func labelled(key, value string) func(*farmv1alpha.Llama) {
	return func(llama *farmv1alpha.Llama) { metav1.SetMetaDataLabel(&llama.ObjectMeta, key, value) }
}

func (e *farmEnv) createLlama(llama *farmv1alpha.Llama) *farmv1alpha.Llama {
	e.Helper()
	created, err := e.llamas.Create(e.Context(), llama, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func (e *farmEnv) llama(name string) *farmv1alpha.Llama {
	e.Helper()
	llama, err := e.llamas.Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return llama
}

// awaitGone waits until the Llama does not exist any more.
func (e *farmEnv) awaitGone(name string) {
	e.Helper()
	e.eventually(func() string {
		llama, err := e.llamas.Get(e.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return fmt.Sprintf("Llama %s still exists: finalizers %v, deletionTimestamp %v", name, llama.Finalizers, llama.DeletionTimestamp)
	})
}

// createPod creates a Pod with this number of containers, which the simulated node runs.
func (e *farmEnv) createPod(name string, containers int, changes ...func(*corev1.Pod)) *corev1.Pod {
	e.Helper()
	created, err := e.kube.CoreV1().Pods(e.namespace).Create(e.Context(), newPod(name, containers, changes...), metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func newPod(name string, containers int, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "nginx:latest"})
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// onNoNode makes a Pod unschedulable.
func onNoNode(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"no": "node"} }

// kubectlFails runs a kubectl command in the test's namespace that must fail, and returns its output.
func (e *farmEnv) kubectlFails(args ...string) string {
	e.Helper()
	return e.cluster.KubectlFails(e, append([]string{"--namespace", e.namespace}, args...)...)
}

// file writes the text into a file for kubectl.
func (e *farmEnv) file(text string) string {
	e.Helper()
	file, err := os.CreateTemp(e.TempDir(), "*.yaml")
	if err != nil {
		e.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		e.Fatal(err)
	}
	return filepath.Clean(file.Name())
}

// dolly is a manifest of the Llama that newLlama returns.
const dolly = `apiVersion: farm.example.com/v1alpha
kind: Llama
metadata:
  name: dolly
spec:
  weight: 31.4
  height: 0.5
`

// table returns the fields of each row of kubectl's output.
func table(output string) (rows [][]string) {
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) > 0 {
			rows = append(rows, fields)
		}
	}
	return rows
}

// next returns the next event of the watch. The test fails if there is none.
func next(t testing.TB, watcher watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-watcher.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience.Limit):
		t.Fatalf("no event within %s", patience.Limit)
	}
	panic("unreachable")
}
