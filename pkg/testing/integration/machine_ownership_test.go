// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/patience"
)

// Ownership, deletion and failures of Machines and their switches.

func switchDeleted(e *env) {
	e.createMachine(newMachine("m", 2))
	_, before := e.awaitMachine("m", 2)
	e.kubectl("delete", "switch", before[0].Name)
	if _, after := e.awaitMachine("m", 2); slices.ContainsFunc(after, func(sw v1alpha1.Switch) bool { return sw.UID == before[0].UID }) {
		e.Error("the switch still exists")
	}
}

func switchRelabelled(e *env) {
	e.createMachine(newMachine("a", 2))
	e.createMachine(newMachine("b", 2))
	_, ofA := e.awaitMachine("a", 2)
	e.awaitMachine("b", 2)
	e.kubectl("label", "switch", ofA[0].Name, "machine=b", "--overwrite")
	e.awaitMachineEvent("a", "Released", ofA[0].Name)
	e.awaitMachineEvent("b", "Adopted", ofA[0].Name)
	e.awaitMachineEvent("b", "SwitchDeleted", "Deleted: switch-")
	e.awaitMachine("a", 2)
	e.awaitMachine("b", 2)
	if all := e.switches(); len(all) != 4 {
		e.Errorf("got %d switches, want 4", len(all))
	}
}

func switchUnlabelled(e *env) {
	e.createMachine(newMachine("m", 1))
	_, before := e.awaitMachine("m", 1)
	e.kubectl("label", "switch", before[0].Name, "machine-")
	e.awaitMachineEvent("m", "Released", before[0].Name)
	e.awaitMachine("m", 1)
	all := e.switches()
	free := slices.IndexFunc(all, func(sw v1alpha1.Switch) bool { return sw.UID == before[0].UID })
	if len(all) != 2 || free < 0 || len(all[free].OwnerReferences) > 0 {
		e.Errorf("got switches %+v, want the old one without an owner and a new one", all)
	}
}

func switchBeforeMachine(e *env) {
	e.kubectl("apply", "-f", e.file(`
apiVersion: useless.container.training/v1alpha1
kind: Switch
metadata: {name: early, labels: {machine: m}}
spec: {position: up}
`))
	e.createMachine(newMachine("m", 1, quick))
	if _, owned := e.awaitMachine("m", 1); owned[0].Name != "early" {
		e.Errorf("switch of the Machine: got %s, want early", owned[0].Name)
	}
}

func switchByHand(e *env) {
	e.createMachine(newMachine("m", 2))
	_, before := e.awaitMachine("m", 2)
	e.kubectl("apply", "-f", e.file(`
apiVersion: useless.container.training/v1alpha1
kind: Switch
metadata: {name: zzz, labels: {machine: m}}
`))
	e.awaitMachineEvent("m", "SwitchDeleted", "Deleted: zzz")
	if _, after := e.awaitMachine("m", 2); !slices.EqualFunc(before, after, func(a, b v1alpha1.Switch) bool { return a.UID == b.UID }) {
		e.Errorf("switches: got %+v, want %+v", after, before)
	}
}

func switchOfStranger(e *env) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "house"}}
	owner, err := e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), owner, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	_, err = e.client.UselessV1alpha1().Switches(e.namespace).Create(e.Context(), &v1alpha1.Switch{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{"machine": "m"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
		Spec: v1alpha1.SwitchSpec{Position: "up"},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.createMachine(newMachine("m", 1, quick))
	e.awaitMachineEvent("m", "SwitchNotOwned", "theirs (of ConfigMap house)")
	if _, owned := e.awaitMachine("m", 1); owned[0].Name == "theirs" {
		e.Error("the Machine has adopted a foreign switch")
	}
	if all := e.switches(); len(all) != 2 || all[1].Name != "theirs" || all[1].Spec.Position != "up" || all[1].Status.SeenAt != nil {
		e.Errorf("got switches %+v, want the foreign one unchanged", all)
	}
}

func selectorsOverlap(e *env) {
	e.createMachine(newMachine("a", 2, selecting("room", "hall")))
	e.awaitMachine("a", 2)
	e.createMachine(newMachine("b", 1, selecting("room", "hall")))
	if message := e.awaitMachineReason("b", v1alpha1.ReasonSelectorOverlap); !strings.Contains(message, "Machine a") {
		e.Errorf("message of the condition: got %q, want Machine a in it", message)
	}
	e.awaitMachine("a", 2)
	e.kubectl("delete", "machine", "a")
	e.awaitMachine("b", 1)
}

func machineDeletedInBackground(e *env) {
	e.createMachine(newMachine("m", 3))
	e.awaitMachine("m", 3)
	e.kubectl("delete", "machine", "m", "--cascade=background")
	e.awaitNoSwitches()
}

func machineDeletedInForeground(e *env) {
	e.createMachine(newMachine("m", 3))
	e.awaitMachine("m", 3)
	e.awaitCollector()
	e.kubectl("delete", "machine", "m", "--cascade=foreground", patience.Timeout)
	if all := e.switches(); len(all) > 0 {
		e.Errorf("switches of a deleted Machine: got %+v, want none", all)
	}
}

func (e *env) awaitNoSwitches() {
	e.Helper()
	e.eventually(func() string {
		if all := e.switches(); len(all) > 0 {
			return fmt.Sprintf("%d switches still exist", len(all))
		}
		return ""
	})
}

// awaitCollector waits until the garbage collector deletes the switches of another Machine. For up to 30 seconds after a CRD was installed it neither
// orphans objects of its kind nor waits for them.
func (e *env) awaitCollector() {
	e.Helper()
	e.createMachine(newMachine("probe", 1))
	_, probe := e.awaitMachine("probe", 1)
	e.kubectl("delete", "machine", "probe")
	e.eventually(func() string {
		if all := e.switches(); slices.ContainsFunc(all, func(sw v1alpha1.Switch) bool { return sw.UID == probe[0].UID }) {
			return "the garbage collector does not know the kind Switch yet"
		}
		return ""
	})
}

func machineOrphans(e *env) {
	e.createMachine(newMachine("m", 2))
	_, before := e.awaitMachine("m", 2)
	e.awaitCollector()
	e.kubectl("delete", "machine", "m", "--cascade=orphan", patience.Timeout)
	if all := e.switches(); len(all) != 2 || len(all[0].OwnerReferences)+len(all[1].OwnerReferences) > 0 {
		e.Errorf("got switches %+v, want two orphans", all)
	}
	e.createMachine(newMachine("m", 2))
	if _, after := e.awaitMachine("m", 2); !slices.EqualFunc(before, after, func(a, b v1alpha1.Switch) bool { return a.UID == b.UID }) {
		e.Errorf("adopted switches: got %+v, want %+v", after, before)
	}
	e.awaitMachineEvent("m", "Adopted", before[0].Name)
}

func machineRecreated(e *env) {
	e.createMachine(newMachine("m", 2))
	_, before := e.awaitMachine("m", 2)
	old := sets.New[string]()
	for _, sw := range before {
		old.Insert(sw.Name)
		e.patchSwitch(sw.Name, `{"metadata":{"finalizers":["example.com/slow"]}}`)
	}
	e.kubectl("delete", "machine", "m")
	e.createMachine(newMachine("m", 2))
	_, after := e.awaitMachine("m", 2)
	for _, sw := range after {
		if old.Has(sw.Name) {
			e.Errorf("the new Machine has adopted %s of the old one", sw.Name)
		}
	}
	for _, sw := range before {
		e.patchSwitch(sw.Name, `{"metadata":{"finalizers":null}}`)
	}
	e.eventually(func() string {
		if all := e.switches(); len(all) != 2 {
			return fmt.Sprintf("got %d switches, want 2", len(all))
		}
		return ""
	})
	e.awaitMachine("m", 2)
}

func machineQuota(e *env) {
	const counted = corev1.ResourceName("count/switches.useless.container.training")
	quotas := e.kube.CoreV1().ResourceQuotas(e.namespace)
	e.eventually(func() string { // a new resource is counted only by quotas that are created up to 30 seconds later
		_, err := quotas.Create(e.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("1")}},
		}, metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
			quota, err := quotas.Get(e.Context(), "few", metav1.GetOptions{})
			if err != nil {
				e.Fatal(err)
			}
			if _, isCounted := quota.Status.Used[counted]; isCounted {
				return ""
			}
		}
		if err := quotas.Delete(e.Context(), "few", metav1.DeleteOptions{}); err != nil {
			e.Fatal(err)
		}
		return "the usage of the quota is not counted"
	})
	e.createMachine(newMachine("m", 100, quick))
	if message := e.awaitMachineReason("m", v1alpha1.ReasonCreateFailed); !strings.Contains(message, "exceeded quota: few") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	e.awaitMachineEvent("m", "FailedCreate", "exceeded quota: few")
	e.eventually(func() string { // the Machine keeps its only switch down meanwhile
		if owned := e.switchesOf(e.machine("m")); len(owned) != 1 {
			return fmt.Sprintf("got %d switches of the Machine, want 1", len(owned))
		}
		return ""
	})
	one := e.switchesOf(e.machine("m"))[0].Name
	e.flipUp(one)
	e.kubectl("wait", "switch/"+one, "--for=jsonpath={.spec.position}=down", patience.Timeout)
	e.kubectl("patch", "machine", "m", "--type=merge", `--patch={"spec":{"switches":3}}`)
	e.kubectl("delete", "resourcequota", "few")
	e.awaitMachine("m", 3)
	warnings := 0
	for _, event := range e.machineEvents("m") {
		if event.Type == corev1.EventTypeWarning {
			warnings += int(max(event.Count, 1))
		}
	}
	if warnings > 2 {
		e.Errorf("got %d warnings, want 2 at most", warnings)
	}
}

func machineNamespaceDeletion(e *env) {
	for i := range 3 {
		e.createMachine(newMachine(fmt.Sprintf("m-%d", i), 5))
	}
	for i := range 3 {
		e.awaitMachine(fmt.Sprintf("m-%d", i), 5)
	}
	e.deleteNamespace()
}
