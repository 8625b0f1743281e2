// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
)

// machinesByHook is a spec whose parents are of a kind that Millwright has a built-in controller for.
const machinesByHook = `
generateSelector: true
parentResource: {apiVersion: useless.container.training/v1alpha1, resource: machines}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// The engine waits while a Lease shows that a process runs the built-in controller. The test writes that Lease, under a name that no
// Deployment uses. The engine itself has the Lease that its rights are for, so the test cannot be parallel.
func TestCompositeBuiltInKindWaits(t *testing.T) {
	e := newEngineEnv(t)
	e.grantEngine(rightsOnParents("useless.container.training", "machines")...)
	e.hook.Answers(oneConfigMap)
	late := func(after time.Duration) *metav1.MicroTime { // by the clock of that process, which is an hour late
		return ptr.To(metav1.NewMicroTime(time.Now().Add(after - time.Hour)))
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: e.name, Labels: map[string]string{
			"app.kubernetes.io/managed-by": "millwright", "controllers.millwright.dev/machine": "on", "millwright.dev/namespace": "",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("core"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: late(0)},
	}
	leases := e.kube.CoordinationV1().Leases(accountNamespace)
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leases.Delete(context.Background(), e.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	var journal faultproxy.Journal
	e.run(&journal, func(options *manager.Options) {
		options.LeaderElect = true
		options.LeaderElection.Namespace, options.LeaderElection.Name = accountNamespace, string(engine)
	})
	e.serves(machinesByHook)
	parent := e.put("{apiVersion: useless.container.training/v1alpha1, kind: Machine, metadata: {name: m, labels: {%s: %s}}, spec: {}}", testLabel, e.namespace)
	set := func(change func(*coordinationv1.Lease)) {
		t.Helper()
		e.eventually(func() string {
			now, err := leases.Get(t.Context(), e.name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			change(now)
			if _, err := leases.Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	renewals := 0
	e.eventually(func() string { // the engine has to have seen one before
		renewals++
		set(func(l *coordinationv1.Lease) { l.Spec.RenewTime = late(time.Duration(renewals) * time.Second) })
		ready := meta.FindStatusCondition(e.controller(e.name).Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonServedByBuiltIn {
			return fmt.Sprintf("condition Ready: got %+v, want the reason ServedByBuiltIn", ready)
		}
		return ""
	})
	if message := e.awaitReason(v1alpha1.ReasonServedByBuiltIn); !strings.Contains(message, "controller machine") {
		t.Errorf("message of the condition: got %q, want the controller machine in it", message)
	}
	if writes := writesOf(&journal, e.namespace); len(writes) > 0 || len(e.hook.Calls()) > 0 {
		t.Errorf("got writes %v and %d calls of the hook, want none", writes, len(e.hook.Calls()))
	}
	// The next leader does not run the controller machine.
	set(func(l *coordinationv1.Lease) { l.Labels["controllers.millwright.dev/machine"] = "off" })
	e.awaitReason(v1alpha1.ReasonServing)
	e.awaitChild("ConfigMap", "m", ownedBy(parent))
	// The controller is on again. Then its Deployment is deleted, and its Lease.
	set(func(l *coordinationv1.Lease) {
		l.Labels["controllers.millwright.dev/machine"], l.Spec.RenewTime = "on", late(time.Minute)
	})
	e.awaitReason(v1alpha1.ReasonServedByBuiltIn)
	if err := leases.Delete(t.Context(), e.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitReason(v1alpha1.ReasonServing)
	// The leader publishes which controllers it runs.
	own, err := leases.Get(t.Context(), string(engine), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"controllers.millwright.dev/compositecontroller": "on", "controllers.millwright.dev/machine": "off", "app.kubernetes.io/managed-by": "millwright",
	} {
		if got := own.Labels[label]; got != want {
			t.Errorf("label %s of the engine's Lease: got %q, want %q", label, got, want)
		}
	}
}
