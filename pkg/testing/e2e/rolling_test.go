// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/testing/patience"
)

// withVersion is spec.template of the parents. A Pod has its version in a variable.
const withVersion = `
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: "python:3", command: [python3, -c, "import time; time.sleep(100000)"], env: [{name: VERSION, value: "VALUE"}]}
`

const rollingSet = `
apiVersion: example.com/v1
kind: RollingSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3` + withVersion

const blueGreen = `
apiVersion: example.com/v1
kind: BlueGreen
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 2
  port: 80` + withVersion

// testRollingSet follows the guide with its samples of updates: Pods that are created again one after the other, and a switch to new ones.
func (s *suite) testRollingSet(t *testing.T) {
	t.Run("RollingSet", s.testOneAfterTheOther)
	t.Run("BlueGreen", s.testBlueGreen)
}

// testOneAfterTheOther checks that at most one Pod is not ready while all are created again.
func (s *suite) testOneAfterTheOther(t *testing.T) {
	s.loadSampleImages(t)
	s.deploySample(t, compositeSamples+"rollingset.yaml", "rollingset/rollingset-controller", "cc/rollingset-controller")
	ns := s.Namespace(t)
	s.describeFailed(t, ns, "rollingsets,pods,controllerrevisions.metacontroller.k8s.io")
	s.apply(t, rollingSet, "NAMESPACE", ns, "VALUE", "one")
	s.awaitRolled(t, ns)

	record := s.recordPods(t, ns)
	s.apply(t, rollingSet, "NAMESPACE", ns, "VALUE", "two")
	most, order := record.until("two")
	if most != 1 {
		t.Errorf("%d Pods were not ready at a time, want 1", most)
	}
	if want := []string{"web-2", "web-1", "web-0"}; !slices.Equal(order, want) {
		t.Errorf("the Pods were deleted in the order %v, want %v", order, want)
	}
	s.awaitRolled(t, ns)
	const revisions = "controllerrevisions.metacontroller.k8s.io"
	if got := s.Kubectl(t, "get", revisions, "-n", ns, "--no-headers"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "3 of 3") {
		t.Errorf("the ControllerRevisions are\n%s", got)
	}
}

// awaitRolled waits until the parent reports that all Pods have the latest revision and are ready.
func (s *suite) awaitRolled(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "the parent reports that all Pods have the latest revision and are ready", patience.Limit, func() bool {
		row := s.Kubectl(t, "get", "rollingset", "web", "-n", ns, "--no-headers")
		return strings.Contains(row, "True") && strings.Contains(row, "3 of 3 children have the latest revision") &&
			s.read(t, ns, "rollingset/web", ".status.readyReplicas") == "3"
	})
}

// podRecord replays the changes of Pods in the order in which the API server has made them.
type podRecord struct {
	*testing.T
	changes watch.Interface
	pods    map[string]*corev1.Pod
}

// recordPods begins a record with the Pods that are there.
func (s *suite) recordPods(t *testing.T, ns string) *podRecord {
	t.Helper()
	all, err := s.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := s.kube.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: all.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	record := &podRecord{t, changes, map[string]*corev1.Pod{}}
	for i := range all.Items {
		record.pods[all.Items[i].Name] = &all.Items[i]
	}
	return record
}

// until replays changes until all Pods have the value and are ready. It returns how many were not ready at a time, and the Pods in the order in which
// they were deleted.
func (r *podRecord) until(value string) (most int, deleted []string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience.Limit)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			r.Fatalf("not within %v: all Pods have the value %s and are ready; deleted until now: %v", patience.Limit, value, deleted)
		case event, open := <-r.changes.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !open || !ok {
				r.Fatalf("the record of the Pods has ended: %v", event.Object)
			}
			if event.Type == watch.Deleted {
				pod = nil // its name stays in the record
				deleted = append(deleted, event.Object.(*corev1.Pod).Name)
			}
			r.pods[event.Object.(*corev1.Pod).Name] = pod
		}
		away, updated := 0, 0
		for _, pod := range r.pods {
			switch {
			case !isReady(pod):
				away++
			case pod.Spec.Containers[0].Env[0].Value == value:
				updated++
			}
		}
		if most = max(most, away); updated == len(r.pods) {
			return most, deleted
		}
	}
}

// isReady reports whether a Pod is there, is not being deleted, and is ready.
func isReady(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// testBlueGreen checks that the Service selects the new Pods only when all of them are available.
func (s *suite) testBlueGreen(t *testing.T) {
	s.loadSampleImages(t)
	s.deploySample(t, compositeSamples+"bluegreen.yaml", "bluegreen/bluegreen-controller", "cc/bluegreen-controller")
	ns := s.Namespace(t)
	s.describeFailed(t, ns, "bluegreens,services,replicasets,pods")
	s.apply(t, blueGreen, "NAMESPACE", ns, "VALUE", "one")
	eventually(t, "the blue Pods are available", patience.Limit, func() bool {
		return s.Kubectl(t, "get", "replicaset", "web-blue", "-n", ns, "--ignore-not-found", "-o", "jsonpath={.status.availableReplicas}") == "2"
	})

	s.apply(t, blueGreen, "NAMESPACE", ns, "VALUE", "two")
	eventually(t, "the Service selects the green Pods", patience.Limit, func() bool {
		return s.read(t, ns, "service/web", `.spec.selector.bluegreen\.example\.com/color`) == "green"
	})
	if got := s.read(t, ns, "replicaset/web-green", ".status.availableReplicas"); got != "2" {
		t.Errorf("the Service selects the green Pods, of which %q are available, want 2", got)
	}
	const green = "--selector=bluegreen.example.com/color=green"
	if got := s.Kubectl(t, "get", "pods", "-n", ns, green, "-o", "jsonpath={.items[*].spec.containers[0].env[0].value}"); got != "two two" {
		t.Errorf("the values of the green Pods are %q, want %q", got, "two two")
	}
	eventually(t, "the blue Pods are deleted, and the parent reports green", patience.Limit, func() bool {
		return s.read(t, ns, "replicaset/web-blue", ".status.replicas") == "0" &&
			s.read(t, ns, "bluegreen/web", ".status.active") == "green" && s.read(t, ns, "bluegreen/web", ".status.phase") == "Stable"
	})
}

// describeFailed logs objects if the test fails.
func (s *suite) describeFailed(t *testing.T, ns, kinds string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Kubectl(t, "describe", kinds, "-n", ns))
		}
	})
}
