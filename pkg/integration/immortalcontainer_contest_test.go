// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller/immortalcontainer"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testcluster"
)

func TestAContestedPodIsCreatedEverMoreRarely(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Shared(t)
	e := newEnv(t, cluster)
	kubeconfig := operatorAccount(t, cluster).WriteKubeconfig(t)
	runManagerWith(t, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, e.namespace, []string{immortalcontainer.ControllerName}
	})
	e.create(immortal("web"))
	e.awaitReady("web", 1)

	// A client that deletes each Pod as soon as it finds it.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var deleting sync.WaitGroup
	deleting.Go(func() {
		pods := e.kube.CoreV1().Pods(e.namespace)
		for ticker := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-ticker {
			_ = pods.Delete(ctx, "web-immortalpod", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
		}
	})
	message := e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackingOff)
	if !strings.Contains(message, "is deleted each time") {
		t.Errorf("the condition Ready reads %q", message)
	}
	e.awaitEvent("web", "Contested")
	// The first pause is of a second. This one also leaves time for the edit.
	e.eventually(func() string {
		status := e.get("web").Status
		if status.NextStartTime == nil || time.Until(status.NextStartTime.Time) < 10*time.Second {
			return "the pause is not yet 10 s long"
		}
		return ""
	})
	starts := e.get("web").Status.StartTimes
	cancel()
	deleting.Wait()
	e.patch("web", `{"spec":{"image":"nginx:edited"}}`) // ends the pause
	e.awaitReady("web", starts+1)
}
