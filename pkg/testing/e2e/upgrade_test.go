// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/patience"
)

// load is the number of ImmortalContainers during the upgrade. They are on the simulated node, because the real one is busy with the
// upgrade. Of every two, one Pod is deleted again and again, and the other must not be replaced.
const load = 40

const simulated = `
apiVersion: immortalcontainers.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  image: "IMAGE"
  template:
    spec:
      nodeSelector: {type: simulated}
      tolerations: [{operator: Exists}]
---
`

func (s *suite) testUpgrade(t *testing.T) {
	ns := s.Namespace(t)
	var manifests strings.Builder
	for i := range load {
		manifests.WriteString(strings.Replace(simulated, "NAME,", fmt.Sprintf("x%d,", i), 1))
	}
	s.apply(t, manifests.String(), "NAMESPACE", ns, "IMAGE", app1)
	s.apply(t, immortalContainer, "NAMESPACE", ns, "NAME", "real", "IMAGE", app1)
	s.Kubectl(t, "wait", "-n", ns, "--for=condition=Ready", patience.Timeout, "ic", "--all")
	real := s.podUID(t, ns, "real-immortalpod")
	untouched := map[string]types.UID{}
	for i := 1; i < load; i += 2 {
		untouched[podOf(i)] = types.UID(s.podUID(t, ns, podOf(i)))
	}

	c := s.startChurn(t, ns)
	s.deploy(t, "deploy", millwright2)
	atUpgrade := c.deleted.Load()
	eventually(t, "ten Pods were deleted after the upgrade", patience.Limit, func() bool { return c.deleted.Load() >= atUpgrade+10 })
	c.stop()
	t.Logf("%d Pods were deleted during the upgrade; one was missing for %v at most", c.deleted.Load(), c.longest.Round(time.Millisecond))
	if c.longest > time.Minute {
		t.Errorf("got a Pod that was missing for %v, want at most a minute, which is four durations of the Lease", c.longest)
	}

	images := s.Kubectl(t, "get", "pods", "-n", systemNamespace, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0].image}")
	contains(t, "the Pods of the operator", images, millwright2)
	s.Kubectl(t, "wait", "-n", ns, "--for=condition=Ready", patience.Timeout, "ic", "--all")
	for pod, uid := range untouched {
		if now := s.podUID(t, ns, pod); now != string(uid) {
			t.Errorf("got Pod %s with the UID %s, want still %s", pod, now, uid)
		}
	}
	if now := s.podUID(t, ns, "real-immortalpod"); now != real {
		t.Errorf("got the Pod on the real node with the UID %s, want still %s", now, real)
	}
	for i := 0; i < load; i += 2 {
		object, err := s.client.ImmortalcontainersV1alpha1().ImmortalContainers(ns).Get(t.Context(), fmt.Sprintf("x%d", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := object.Status.StartTimes, int64(1+c.deletions[i]); got != want {
			t.Errorf("got %d starts of %s, want %d", got, object.Name, want)
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			t.Errorf("got the conditions %+v of %s, want Ready", object.Status.Conditions, object.Name)
		}
	}
}

func podOf(i int) string { return fmt.Sprintf("x%d-immortalpod", i) }

// churn deletes Pods, one after the other, and waits until each is replaced.
type churn struct {
	cancel    context.CancelFunc
	done      chan struct{}
	deleted   atomic.Int64
	deletions map[int]int
	longest   time.Duration
}

func (s *suite) startChurn(t *testing.T, namespace string) *churn {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &churn{cancel: cancel, done: make(chan struct{}), deletions: map[int]int{}}
	pods := s.kube.CoreV1().Pods(namespace)
	go func() {
		defer close(c.done)
		for i := 0; ctx.Err() == nil; i = (i + 2) % load {
			before, err := pods.Get(t.Context(), podOf(i), metav1.GetOptions{})
			if err != nil {
				t.Errorf("reading Pod %s before its deletion: %v", podOf(i), err)
				return
			}
			if err := pods.Delete(t.Context(), podOf(i), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
				return
			}
			c.deleted.Add(1)
			c.deletions[i]++
			begin := time.Now()
			for {
				pod, err := pods.Get(t.Context(), podOf(i), metav1.GetOptions{})
				if err == nil && pod.UID != before.UID {
					break
				}
				if err != nil && !apierrors.IsNotFound(err) || time.Since(begin) > patience.Limit {
					t.Errorf("Pod %s is not replaced: %v", podOf(i), err)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			c.longest = max(c.longest, time.Since(begin))
		}
	}()
	return c
}

// stop returns when the last Pod is replaced.
func (c *churn) stop() {
	c.cancel()
	<-c.done
}
