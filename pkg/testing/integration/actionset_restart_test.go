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

// After the process is killed the next one continues each phase and does nothing twice. Only the result of a command is lost, because
// the process that executes it holds its stream.
func TestActionSetKilledDuringFunction(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]bool{"ends before restart": true, "ends after restart": false} {
		t.Run(name, func(t *testing.T) {
			e := newActionsEnv(t)
			sets := slices.Sorted(maps.Keys(longPhases))
			held := e.prepareLongPhases(sets...)
			var journal faultproxy.Journal
			first := e.run(&journal)
			for _, set := range sets {
				e.startRun(set, "  phases: ["+longPhases[set]+", "+createPhase("second")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
			}
			for range 5 {
				held.await(e.env)
			}
			for _, set := range sets {
				e.awaitPhase(set, "long", v1alpha1.StateRunning)
				e.wantEvents(set, "SA go", "SP long") // a process that is killed posts no more events
			}
			e.awaitPods("scaleworkload", 2)
			e.eventually(func() string { // KubeOps has deleted its object, which has a finalizer
				kept, err := e.kube.CoreV1().ConfigMaps(e.namespace).Get(t.Context(), "kubeops-kept", metav1.GetOptions{})
				if err != nil || kept.DeletionTimestamp == nil {
					return fmt.Sprintf("ConfigMap kubeops-kept is not being deleted: %v", err)
				}
				return ""
			})
			first.kill()
			letPhasesEnd := func() {
				close(held.open)
				for _, set := range []string{"kubeops", "wait", "waitv2"} {
					e.release(set + "-kept")
				}
				e.becomeReady("scaleworkload")
			}
			if meanwhile {
				letPhasesEnd()
				e.awaitEndedPods(3)
			}
			e.run(&journal)
			if !meanwhile {
				for _, set := range []string{"kubeexec", "kubeexecall"} { // the new process has started when these have failed
					e.awaitEnd(set)
				}
				letPhasesEnd()
			}

			for _, set := range sets {
				want := "complete long=complete second=complete defer cleanup=complete; 100%"
				events := []string{"SA go", "SP long", "EP long", "SP second", "EP second", "SD cleanup", "ED cleanup", "UC"}
				if set == "kubeexec" || set == "kubeexecall" {
					const lost = "ControllerRestarted: the controller was restarted while the phase ran, and how the phase ended is not known"
					want = "failed long=failed second=pending defer cleanup=complete; 0%; " + lost
					events = []string{"SA go", "SP long", "F Failed to execute phase: " + lost, "SD cleanup", "ED cleanup"}
				}
				live := e.wantEnd(set, want)
				e.wantEvents(set, events...)
				e.wantCleanUp(live)
			}
			for set, output := range map[string]map[string]any{
				"kubetask": {"it": "ended well"}, "multi": {"it": "ended well"}, "preparedata": {"it": "ended well"},
				"scaleworkload": {"originalReplicaCount": float64(1)},
			} {
				if diff := cmp.Diff(output, outputs(t, e.getSet(set), "long")); diff != "" {
					t.Errorf("output of ActionSet %s (-want +got):\n%s", set, diff)
				}
			}
			done := map[string]int{}
			for _, entry := range journal.Entries() {
				request := entry.Verb + " " + entry.Resource
				if entry.TookEffect() && (request == "create pods" || entry.Resource == "deployments" || request == "delete configmaps") {
					done[request]++
				}
			}
			effects := map[string]int{"create pods": 3, "patch deployments": 1, "delete configmaps": 1}
			if diff := cmp.Diff(effects, done); diff != "" {
				t.Errorf("writes of both processes (-want +got):\n%s", diff)
			}
			if ran := e.node.executed(); len(ran) != 2 {
				t.Errorf("got %d commands executed, want 2: %q", len(ran), ran)
			}
		})
	}
}

// awaitPods waits until the Deployment has count Pods.
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

// becomeReady makes the Pods ready of a Deployment that was created with neverReady.
func (e *actionsEnv) becomeReady(deployment string) {
	e.Helper()
	for _, pod := range e.awaitPods(deployment, 2) {
		patch := []byte(`{"metadata":{"annotations":{"simulated.millwright.dev/never-ready":"false"}}}`)
		if _, err := e.kube.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			e.Fatal(err)
		}
	}
}

// awaitEndedPods waits until count Pods of phases have succeeded.
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

// After a restart the run continues with the Blueprint, the spec and the subject of its start.
func TestActionSetRunUsesSnapshot(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.createConfigMap("subject", map[string]string{"say": "before"})
	const sees = `{func: KubeOps, name: second, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap,
      metadata: {name: $ME-second}, data: {time: "{{ .Time }}", say: "{{ .Object.data.say }}", from: "{{ .Phases.long.Output.it }}"}}'}}`
	const time = `{func: KubeOps, name: zero, args: {operation: create, namespace: $NS,
      spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: $ME-zero}, data: {time: "{{ .Time }}"}}'}}`
	b := e.blueprint("snapshot", goPhases(time, longPhases["kubetask"], sees))
	e.actionSet("snapshot", "{name: go, blueprint: $ME, object: {apiVersion: v1, resource: configmaps, name: subject, namespace: $NS}}")
	held.await(e.env)
	first.kill()

	b.Actions["go"].Phases[2].Func = "NoSuchFunc"
	b.Actions["go"].Phases[2].Name = "other"
	if _, err := e.client.CrV1alpha1().Blueprints(e.namespace).Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.kubectl("patch", "configmap", "subject", "--type=merge", "--patch", `{"data":{"say":"after"}}`)
	e.patchSet("snapshot", `{"spec":{"actions":[]}}`)
	e.run(nil)
	close(held.open)
	e.wantEnd("snapshot", "complete zero=complete long=complete second=complete; 100%")
	want := map[string]string{"say": "before", "from": "ended well", "time": e.configMap("snapshot-zero")["time"]}
	if diff := cmp.Diff(want, e.configMap("snapshot-second")); diff != "" || want["time"] == "" {
		t.Errorf("what templates see (-want +got):\n%s", diff)
	}
}

func TestActionSetDeletesBeforeRestart(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.startRun("deleted", "  phases: ["+longPhases["kubetask"]+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	held.await(e.env)
	set := e.awaitPhase("deleted", "long", v1alpha1.StateRunning)
	first.kill()
	e.deleteSet("deleted")
	e.run(nil)
	e.awaitGone("deleted")
	e.wantCleanUp(set)
	if e.configMap("deleted-cleanup") == nil {
		t.Error("the deferPhase did not run")
	}
}

func TestActionSetSecretGone(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	first := e.run(nil)
	e.startRun("lost", "  phases: ["+longPhases["kubetask"]+", "+createPhase("second")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	held.await(e.env)
	set := e.awaitPhase("lost", "long", v1alpha1.StateRunning)
	first.kill()
	secret := "actionset-run-" + string(set.UID)
	if err := e.kube.CoreV1().Secrets(e.namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.run(nil)
	lost := "Secret " + secret + " with the snapshot of the run was not found: the run cannot continue"
	set = e.wantEnd("lost", "failed long=failed second=pending defer cleanup=pending; 0%; "+lost)
	e.wantEvents("lost", "SA go", "SP long", `W "Error" `+lost)
	e.wantCleanUp(set)
	if failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed); failed.Reason != v1alpha1.ReasonRunLost {
		t.Errorf("condition Failed: got %+v, want the reason %s", failed, v1alpha1.ReasonRunLost)
	}
}
