// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

func containerThatIs(ready metav1.ConditionStatus, start int64) *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Status:     v1alpha1.ImmortalContainerStatus{StartTimes: start, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}},
	}
}

func TestARecoveryIsOverWhenTheNextStartIsReadyNotWhileTheLastOneStillIs(t *testing.T) {
	o := newObserver()
	soon := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := o.awaitReady(ctx, 1, 2)
		return err
	}
	for _, container := range []*v1alpha1.ImmortalContainer{containerThatIs("True", 1), containerThatIs("False", 2)} {
		o.saw(containersSeen, watch.Event{Type: watch.Modified, Object: container})
		if err := soon(); err == nil || !strings.Contains(err.Error(), "waiting for 1 ImmortalContainers to be Ready, of which 0 are") {
			t.Errorf("after %v it says %v", container.Status, err)
		}
	}
	o.saw(containersSeen, watch.Event{Type: watch.Modified, Object: containerThatIs("True", 2)})
	if err := soon(); err != nil {
		t.Error(err)
	}
}

func TestPodsOfBeforeAndThoseThatTerminateAreNotCounted(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: uid},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	o := newObserver()
	o.saw(podsSeen, watch.Event{Type: watch.Added, Object: pod("old")})
	old := o.readyPods()
	o.saw(podsSeen, watch.Event{Type: watch.Added, Object: pod("new")})
	terminating := pod("terminating")
	terminating.DeletionTimestamp = &metav1.Time{}
	o.saw(podsSeen, watch.Event{Type: watch.Modified, Object: terminating})
	if _, err := o.awaitPods(t.Context(), 1, old); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := o.awaitPods(ctx, 2, old); err == nil {
		t.Error("two new Pods are ready, where there is one")
	}
	o.saw(podsSeen, watch.Event{Type: watch.Deleted, Object: pod("new")})
	if got := len(o.readyPods()); got != 1 {
		t.Errorf("%d Pods are ready after the deletion, want the old one", got)
	}
}
