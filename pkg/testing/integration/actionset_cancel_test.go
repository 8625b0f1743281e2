// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// longPhases has a phase for each function that may take long. Each waits for something that the test does. They need what
// prepareLongPhases creates.
var longPhases = map[string]string{
	"kubetask":      taskPhase("long", "held"),
	"multi":         "{func: MultiContainerRun, name: long, args: {namespace: $NS, backgroundImage: quiet, backgroundCommand: [go], outputImage: held, outputCommand: [go]}}",
	"preparedata":   preparePhase("long", "held"),
	"kubeexec":      execPhase("long", "held", ""),
	"kubeexecall":   "{func: KubeExecAll, name: long, args: {namespace: $NS, pods: one, containers: main, command: [held]}}",
	"scaleworkload": "{func: ScaleWorkload, name: long, args: {namespace: $NS, kind: Deployment, name: $ME, replicas: 2}}",
	"kubeops":       "{func: KubeOps, name: long, args: {operation: delete, namespace: $NS, objectReference: {apiVersion: v1, resource: configmaps, name: '$ME-kept'}}}",
	"wait":          "{func: Wait, name: long, args: {timeout: 10m, conditions: {anyOf: [{condition: '{{ if eq \"{ $.data.ready }\" \"yes\" }}true{{ end }}', objectReference: {apiVersion: v1, resource: configmaps, name: '$ME-kept', namespace: $NS}}]}}}",
	"waitv2":        "{func: WaitV2, name: long, args: {timeout: 10m, conditions: {allOf: [{condition: '{{ eq .data.ready \"yes\" }}', objectReference: {apiVersion: v1, resource: configmaps, name: '$ME-kept', namespace: $NS}}]}}}",
}

// prepareLongPhases creates what the longPhases of these ActionSets work on. The name of each ActionSet begins with the key of its phase.
// Programs that the phases run wait at the gate.
func (e *actionsEnv) prepareLongPhases(sets ...string) *gate {
	e.Helper()
	held := newGate()
	e.startNode(map[string]program{
		"quiet": images["quiet"],
		"held": func(ctx context.Context, c *call) int {
			if !held.pass(ctx, c) {
				return 143
			}
			c.output("it", "ended well")
			return 0
		},
	})
	e.startPod("one", "main")
	e.createClaim("data", corev1.ReadWriteOnce)
	for _, set := range sets {
		switch function, _, _ := strings.Cut(set, "-"); function {
		case "scaleworkload":
			e.createDeployment(set, true)
		case "kubeops", "wait", "waitv2":
			configMap := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: set + "-kept", Finalizers: []string{"millwright.dev/of-a-test"}}, Data: map[string]string{"ready": "no"},
			}
			if _, err := e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), configMap, metav1.CreateOptions{}); err != nil {
				e.Fatal(err)
			}
			e.Cleanup(func() { e.release(set + "-kept") })
		}
	}
	return held
}

// release removes the finalizers of a ConfigMap, and sets its data to ready.
func (e *actionsEnv) release(name string) {
	patch := []byte(`{"metadata":{"finalizers":null},"data":{"ready":"yes"}}`)
	_, err := e.kube.CoreV1().ConfigMaps(e.namespace).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !e.Failed() && e.Context().Err() == nil {
		e.Error(err)
	}
}

// createDeployment creates a Deployment with one replica on the simulated node, whose Pods are ready immediately or never.
func (e *actionsEnv) createDeployment(name string, neverReady bool) {
	e.Helper()
	labels := map[string]string{"app": name}
	_, err := e.kube.AppsV1().Deployments(e.namespace).Create(e.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"simulated.millwright.dev/never-ready": fmt.Sprint(neverReady)}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

func TestActionSetCancelOrDelete(t *testing.T) {
	e := newActionsEnv(t)
	var sets []string
	for function := range longPhases {
		sets = append(sets, function+"-cancel", function+"-delete")
	}
	held := e.prepareLongPhases(sets...)
	e.run(nil)
	running := map[string]*v1alpha1.ActionSet{}
	for _, set := range sets {
		function, _, _ := strings.Cut(set, "-")
		e.startRun(set, "  phases: ["+longPhases[function]+", "+createPhase("second")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	}
	for range 2 * 5 { // the phases that run programs
		held.await(e.env)
	}
	for _, set := range sets {
		running[set] = e.awaitPhase(set, "long", v1alpha1.StateRunning)
	}
	for _, set := range sets {
		if strings.HasSuffix(set, "-cancel") {
			e.patchSet(set, `{"spec":{"cancel":true}}`)
		} else {
			e.deleteSet(set)
		}
	}
	for _, set := range sets {
		if strings.HasSuffix(set, "-delete") {
			e.awaitGone(set)
		} else {
			live := e.wantEnd(set, "failed long=failed second=pending defer cleanup=complete; 0%; Cancelled: spec.cancel is true")
			cancelled := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionCancelled)
			failed := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionFailed)
			if cancelled == nil || cancelled.Status != metav1.ConditionTrue || failed.Reason != v1alpha1.ReasonCancelRequested {
				t.Errorf("conditions of ActionSet %s: got %+v, want it to be cancelled", set, live.Status.Conditions)
			}
			e.wantEvents(set, "SA go", "SP long", `W "Cancelled" Cancelled: spec.cancel is true`,
				"F Failed to execute phase: it was cancelled", "SD cleanup", "ED cleanup")
		}
		e.wantCleanUp(running[set])
		if e.configMap(set+"-cleanup") == nil || e.configMap(set+"-second") != nil {
			t.Errorf("ActionSet %s: the deferPhase did not run, or the second phase ran", set)
		}
	}
	if ran := e.node.executed(); len(ran) != 4 {
		t.Errorf("got %d commands executed, want 4: %q", len(ran), ran)
	}
}

// awaitGone waits until the ActionSet is gone.
func (e *actionsEnv) awaitGone(name string) {
	e.Helper()
	e.eventually(func() string {
		list, err := e.client.CrV1alpha1().ActionSets(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			e.Fatal(err)
		}
		if len(list.Items) > 0 {
			if list.Items[0].Status == nil {
				list.Items[0].Status = &v1alpha1.ActionSetStatus{}
			}
			return fmt.Sprintf("ActionSet %s still exists: %s", name, summary(&list.Items[0]))
		}
		return ""
	})
}

// Kanister does not run a deferPhase of these functions when the ActionSet is deleted.
func TestActionSetDeferPhaseAfterDelete(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	e.run(nil)
	e.startRun("by-task", "  phases: ["+longPhases["kubetask"]+"]\n  deferPhase: "+taskPhase("cleanup", "quiet")+"\n")
	e.startRun("by-exec", "  phases: ["+longPhases["kubetask"]+"]\n  deferPhase: "+execPhase("cleanup", "quiet", "")+"\n")
	held.await(e.env)
	held.await(e.env)
	for _, set := range []string{"by-task", "by-exec"} {
		running := e.awaitPhase(set, "long", v1alpha1.StateRunning)
		e.deleteSet(set)
		e.awaitGone(set)
		e.wantCleanUp(running)
		e.wantEvents(set, "SA go", "SP long", `W "Cancelled" Cancelled: the ActionSet was deleted`,
			"F Failed to execute phase: it was cancelled", "SD cleanup", "ED cleanup")
	}
	if ran := e.node.executed(); len(ran) != 1 {
		t.Errorf("got %d commands executed by the deferPhase, want 1", len(ran))
	}
}

func TestActionSetCancelBeforeStart(t *testing.T) {
	e := newActionsEnv(t)
	e.blueprint("never", goPhases(createPhase("first"))+withDefer(createPhase("cleanup")))
	e.actionSet("never")
	e.patchSet("never", `{"spec":{"cancel":true}}`)
	e.run(nil)
	e.wantEnd("never", "failed; Cancelled: spec.cancel is true")
	if e.configMap("never-first") != nil || e.configMap("never-cleanup") != nil {
		t.Error("a phase of the cancelled ActionSet ran")
	}
}

func TestActionSetRecreated(t *testing.T) {
	e := newActionsEnv(t)
	held := e.prepareLongPhases()
	e.run(nil)
	e.blueprint("again", "go: {phases: ["+longPhases["kubetask"]+"], deferPhase: {func: KubeOps, name: cleanup, "+
		"args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {generateName: cleanup-}}'}}}")
	first := e.actionSet("again")
	pod := held.await(e.env).pod
	e.deleteSet("again")
	e.awaitGone("again")
	second := e.actionSet("again")
	if other := held.await(e.env).pod; other.UID == pod.UID {
		t.Error("the new ActionSet uses the Pod of the old one")
	}
	close(held.open)
	e.wantEnd("again", "complete long=complete defer cleanup=complete; 100%")
	e.wantCleanUp(first)
	e.wantCleanUp(second)
	list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(t.Context(), metav1.ListOptions{})
	created := 0
	for _, configMap := range list.Items {
		if strings.HasPrefix(configMap.Name, "cleanup-") {
			created++
		}
	}
	if err != nil || created != 2 {
		t.Errorf("got %d ConfigMaps of the deferPhases (%v), want one for each ActionSet", created, err)
	}
}

// cancelAndDelete cancels half of the ActionSets NAME-0 to NAME-(count-1) of each name, and deletes the others. It waits for the end of all, and calls check
// with the name and the message of the error of each one that was cancelled.
func (e *actionsEnv) cancelAndDelete(counts map[string]int, check func(name, set, message string)) {
	e.Helper()
	each := func(cancelled, deleted func(name, set string)) {
		for name, count := range counts {
			for i := range count {
				if set := fmt.Sprintf("%s-%d", name, i); i%2 == 0 {
					cancelled(name, set)
				} else {
					deleted(name, set)
				}
			}
		}
	}
	each(func(_, set string) { e.patchSet(set, `{"spec":{"cancel":true}}`) }, func(_, set string) { e.deleteSet(set) })
	each(func(name, set string) { check(name, set, e.awaitSet(set, ended).Status.Error.Message) }, func(_, set string) { e.awaitGone(set) })
}

// wantCancelled is a check of cancelAndDelete.
func (e *actionsEnv) wantCancelled(_, set, message string) {
	e.Helper()
	if !strings.Contains(message, "Cancelled: ") {
		e.Errorf("error of ActionSet %s: got %.300q, want Cancelled", set, message)
	}
}
