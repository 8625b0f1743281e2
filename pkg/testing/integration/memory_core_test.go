// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

// The Deployment core, with the memory limit of the manifests, survives objects as large as users can create them, and does its work.
func TestCoreMemory(t *testing.T) {
	onlyAsMemoryTest(t)
	cluster := testcluster.Start(t, clusterOptions...)
	e := newEnv(t, cluster)
	const (
		suspendedOnes, others = 100, 20
		large                 = 900_000 // bytes; the API server accepts 1.5 MiB
		largestAnnotations    = 250_000 // bytes; the API server accepts 256 KiB
	)
	ballast := []corev1.EnvVar{{Name: "BALLAST", Value: strings.Repeat("x", large)}}
	note := map[string]string{"note": strings.Repeat("x", largestAnnotations)}
	withBallast := func(container *v1alpha1.ImmortalContainer) {
		container.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "acontainer", Env: ballast}}}}
	}
	for i := range suspendedOnes {
		e.create(immortal(fmt.Sprintf("suspended-%d", i), withBallast, func(container *v1alpha1.ImmortalContainer) { container.Spec.Suspend = true }))
	}
	p := startCore(t, cluster)
	for i := range suspendedOnes {
		e.awaitCondition(fmt.Sprintf("suspended-%d", i), v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	}
	e.eventually(func() string { // the heap may still have garbage of the first list
		if heap := p.metric(e, "go_memstats_heap_alloc_bytes"); heap < 0 || heap > suspendedOnes*large/2 {
			return fmt.Sprintf("heap with %d suspended ImmortalContainers of %d bytes: got %.0f bytes, want half of their size at most", suspendedOnes, large, heap)
		}
		return ""
	})

	for i := range others {
		e.create(immortal(fmt.Sprintf("running-%d", i), withBallast, func(container *v1alpha1.ImmortalContainer) { container.Annotations = note }))
		e.createApp(helloApp(fmt.Sprintf("app-%d", i), 1, func(spec *appsv1.HelloAppSpec) { spec.Port, spec.Env = 80, ballast }))
		machine := newMachine(fmt.Sprintf("machine-%d", i), 2)
		machine.Annotations = note
		e.createMachine(machine)
	}
	for i := range others {
		_, pod := e.awaitReady(fmt.Sprintf("running-%d", i), 1)
		if len(pod.Spec.Containers[0].Env) != 1 {
			t.Errorf("variables of Pod %s: got %d, want 1", pod.Name, len(pod.Spec.Containers[0].Env))
		}
		e.awaitApp(fmt.Sprintf("app-%d", i), 1)
	}
	// Change all of them concurrently, as in an upgrade of the images.
	for i := range others {
		e.patch(fmt.Sprintf("running-%d", i), `{"spec":{"image":"`+newImage+`"}}`)
	}
	for i := range others {
		e.patch(fmt.Sprintf("suspended-%d", i), `{"spec":{"suspend":false}}`)
	}
	for i := range others {
		e.awaitReady(fmt.Sprintf("running-%d", i), 2)
	}
	for i := range others {
		e.awaitReady(fmt.Sprintf("suspended-%d", i), 1)
	}
	p.mustHaveFit(t)
}

// startCore starts the Deployment core, with its memory limit and its account.
func startCore(t *testing.T, cluster *testcluster.Cluster) *limitedProcess {
	t.Helper()
	return startLimited(t, core, "controllers", "--kubeconfig", operatorAccount(t, cluster).WriteKubeconfig(t), "--serving-address", "127.0.0.1:0",
		"--controllers", strings.Join(core.controllers(t), ","), "--leader-elect-lease-namespace", accountNamespace, "--leader-elect-lease-name", string(core),
		"--leader-elect-lease-duration", patientElection.LeaseDuration.String(), "--leader-elect-renew-deadline", patientElection.RenewDeadline.String())
}
