// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// What a phase does is done once, however many processes take part in it. A command alone lives in one process: its end is not known.
func TestActionSetKilledDuringFunction(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]bool{"which ends while nobody looks": true, "which ends later": false} {
		t.Run(name, func(t *testing.T) {
			e := newActionsEnv(t)
			sets := slices.Sorted(maps.Keys(longPhases))
			held := e.prepareLongPhases(sets...)
			var journal faultproxy.Journal
			first := e.run(&journal)
			for _, set := range sets {
				e.goes(set, "  phases: ["+longPhases[set]+", "+creating("second")+"]\n  deferPhase: "+creating("cleanup")+"\n")
			}
			for range 5 {
				held.holds(e.env)
			}
			for _, set := range sets {
				e.awaitPhase(set, "long", v1alpha1.StateRunning)
			}
			e.awaitPods("scaleworkload", 2)
			e.eventually(func() string { // it has asked for the deletion
				kept, err := e.kube.CoreV1().ConfigMaps(e.namespace).Get(t.Context(), "kubeops-kept", metav1.GetOptions{})
				if err != nil || kept.DeletionTimestamp == nil {
					return fmt.Sprintf("nobody deletes what is kept: %v", err)
				}
				return ""
			})
			first.kill()
			let := func() {
				close(held.open)
				for _, set := range []string{"kubeops", "wait", "waitv2"} {
					e.release(set + "-kept")
				}
				e.becomeReady("scaleworkload")
			}
			if meanwhile {
				let()
				e.awaitEndedPods(3)
			}
			e.run(&journal)
			if !meanwhile {
				for _, set := range []string{"kubeexec", "kubeexecall"} { // now it is at work
					e.awaitEnd(set)
				}
				let()
			}

			for _, set := range sets {
				want := "complete long=complete second=complete defer cleanup=complete; 100%"
				events := []string{"SA go", "SP long", "EP long", "SP second", "EP second", "SD cleanup", "ED cleanup", "UC"}
				if set == "kubeexec" || set == "kubeexecall" {
					const lost = "ControllerRestarted: the controller was restarted while the phase ran, and how the phase ended is not known"
					want = "failed long=failed second=pending defer cleanup=complete; 0%; " + lost
					events = []string{"SA go", "SP long", "F Failed to execute phase: " + lost, "SD cleanup", "ED cleanup"}
				}
				live := e.ends(set, want)
				e.hasEvents(set, events...)
				e.leavesNothing(live)
			}
			for set, output := range map[string]map[string]any{
				"kubetask": {"it": "ended well"}, "multi": {"it": "ended well"}, "preparedata": {"it": "ended well"},
				"scaleworkload": {"originalReplicaCount": float64(1)},
			} {
				if diff := cmp.Diff(output, outputs(t, e.getSet(set), "long")); diff != "" {
					t.Errorf("the output of %s (-want +got):\n%s", set, diff)
				}
			}
			done := map[string]int{}
			for _, entry := range journal.Entries() {
				if entry.TookEffect() && (entry.Resource == "pods" && entry.Verb == "create" || entry.Resource == "deployments" || entry.Resource == "configmaps" && entry.Verb == "delete") {
					done[entry.Verb+" "+entry.Resource]++
				}
			}
			effects := map[string]int{"create pods": 3, "patch deployments": 1, "delete configmaps": 1}
			if diff := cmp.Diff(effects, done); diff != "" {
				t.Errorf("what was done in both processes (-want +got):\n%s", diff)
			}
			if ran := e.node.executed(); len(ran) != 2 {
				t.Errorf("commands were run %d times, want 2: %q", len(ran), ran)
			}
		})
	}
}

// awaitPods waits until the Deployment has so many Pods.
func (e *actionsEnv) awaitPods(deployment string, count int) (pods []corev1.Pod) {
	e.Helper()
	e.eventually(func() string {
		list, err := e.kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + deployment})
		if err != nil {
			e.Fatal(err)
		}
		pods = list.Items
		return cmp.Diff(count, len(pods))
	})
	return pods
}

// becomeReady lets the Pods of a Deployment become ready that never did.
func (e *actionsEnv) becomeReady(deployment string) {
	e.Helper()
	for _, pod := range e.awaitPods(deployment, 2) {
		patch := []byte(`{"metadata":{"annotations":{"simulated.millwright.dev/never-ready":"false"}}}`)
		if _, err := e.kube.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			e.Fatal(err)
		}
	}
}

// awaitEndedPods waits until so many Pods of phases have ended.
func (e *actionsEnv) awaitEndedPods(count int) {
	e.Helper()
	e.eventually(func() string {
		list, err := e.kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "createdBy=kanister", FieldSelector: "status.phase=Succeeded"})
		if err != nil {
			e.Fatal(err)
		}
		return cmp.Diff(count, len(list.Items))
	})
}

func TestActionSetRunUsesSnapshot(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.createConfigMap("subject", map[string]string{"say": "before"})
	const sees = `{func: KubeOps, name: second, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap,
      metadata: {name: $ME-second}, data: {time: "{{ .Time }}", say: "{{ .Object.data.say }}", from: "{{ .Phases.long.Output.it }}"}}'}}`
	const time = `{func: KubeOps, name: zero, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: $ME-zero}, data: {time: "{{ .Time }}"}}'}}`
	b := e.blueprint("frozen", goPhases(time, longPhases["kubetask"], sees))
	e.actionSet("frozen", "{name: go, blueprint: $ME, object: {apiVersion: v1, resource: configmaps, name: subject, namespace: $NS}}")
	held.holds(e.env)
	first.kill()

	b.Actions["go"].Phases[2].Func = "NoSuchFunc"
	b.Actions["go"].Phases[2].Name = "other"
	if _, err := e.client.CrV1alpha1().Blueprints(e.namespace).Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.kubectl("patch", "configmap", "subject", "--type=merge", "--patch", `{"data":{"say":"after"}}`)
	e.patchSet("frozen", `{"spec":{"actions":[]}}`)
	e.run(nil)
	close(held.open)
	e.ends("frozen", "complete zero=complete long=complete second=complete; 100%")
	want := map[string]string{"say": "before", "from": "ended well", "time": e.configMap("frozen-zero")["time"]}
	if diff := cmp.Diff(want, e.configMap("frozen-second")); diff != "" || want["time"] == "" {
		t.Errorf("what templates saw (-want +got):\n%s", diff)
	}
}

func TestActionSetDeletesBeforeRestart(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.goes("deleted", "  phases: ["+longPhases["kubetask"]+"]\n  deferPhase: "+creating("cleanup")+"\n")
	held.holds(e.env)
	set := e.awaitPhase("deleted", "long", v1alpha1.StateRunning)
	first.kill()
	e.deleteSet("deleted")
	e.run(nil)
	e.awaitGone("deleted")
	e.leavesNothing(set)
	if e.configMap("deleted-cleanup") == nil {
		t.Error("the deferPhase has not run")
	}
}

func TestActionSetSecretGone(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.goes("lost", "  phases: ["+longPhases["kubetask"]+", "+creating("second")+"]\n  deferPhase: "+creating("cleanup")+"\n")
	held.holds(e.env)
	set := e.awaitPhase("lost", "long", v1alpha1.StateRunning)
	first.kill()
	secret := "actionset-run-" + string(set.UID)
	if err := e.kube.CoreV1().Secrets(e.namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.run(nil)
	lost := "Secret " + secret + " with the snapshot of the run is gone: nothing of the rest can be run"
	set = e.ends("lost", "failed long=failed second=pending defer cleanup=pending; 0%; "+lost)
	e.hasEvents("lost", "SA go", "SP long", `W "Error" `+lost)
	e.leavesNothing(set)
	if failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed); failed.Reason != v1alpha1.ReasonRunLost {
		t.Errorf("Failed is %+v", failed)
	}
}
