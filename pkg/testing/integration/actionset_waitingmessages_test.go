// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// awaitWaiting waits until a line of the condition Progressing begins like this, and returns the line.
func (e *actionsEnv) awaitWaiting(name, begins string) (line string) {
	e.Helper()
	e.eventually(func() string {
		set := e.getSet(name)
		progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
		if progressing == nil {
			return "the ActionSet has no condition Progressing"
		}
		for line = range strings.Lines(progressing.Message) {
			if strings.HasPrefix(line, begins) && strings.Contains(line, " since 20") {
				return ""
			}
		}
		return fmt.Sprintf("ActionSet %s: got message %q, want %q", name, progressing.Message, begins)
	})
	return line
}

func TestActionSetWaitingMessages(t *testing.T) {
	e := newActionsEnv(t)
	e.createConfigMap("kept", map[string]string{"ready": "no"})
	e.run(nil)
	e.startRun("unscheduled", "  phases: [{func: KubeTask, name: task, args: {image: x, command: [x], podOverride: {nodeSelector: {no: such-node}}}}]\n")
	e.startRun("pulled", "  phases: [{func: KubeTask, name: task, args: {image: x, command: [x], podOverride: {nodeSelector: {no: such-node}}}}]\n")
	e.startRun("conditions", "  phases: [{func: WaitV2, name: wait, args: {timeout: 10m, conditions: {allOf: [{condition: '{{ eq .data.ready \"yes\" }}', "+
		"objectReference: {apiVersion: v1, resource: configmaps, name: kept, namespace: $NS}}]}}}]\n")
	e.createConfigMap("held", nil)
	e.kubectl("patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/held"]}}`)
	e.Cleanup(func() {
		_, _ = e.kube.CoreV1().ConfigMaps(e.namespace).Patch(context.Background(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	e.startRun("deleted", "  phases: [{func: KubeOps, name: delete, args: {operation: delete, objectReference: {apiVersion: v1, resource: configmaps, name: held, namespace: $NS}}}]\n")

	// Act as a node that does not find the image.
	e.eventually(func() string {
		set := e.getSet("pulled")
		pods, err := e.kube.CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "millwright.dev/actionset-uid=" + string(set.UID)})
		if err != nil || len(pods.Items) != 1 || len(pods.Items[0].Spec.SchedulingGates) > 0 {
			return fmt.Sprintf("there is no Pod without scheduling gates: %v", err)
		}
		pod := &pods.Items[0]
		err = e.kube.CoreV1().Pods(e.namespace).Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "elsewhere"},
		}, metav1.CreateOptions{})
		if err != nil && pod.Spec.NodeName == "" {
			return err.Error()
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "container", Image: "x",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image x"}},
		}}
		_, err = e.kube.CoreV1().Pods(e.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		return strings.TrimPrefix(errorText(err), "no error")
	})

	e.awaitWaiting("unscheduled", "phase task waits for Pod "+e.namespace+"/kanister-job-")
	e.awaitWaiting("conditions", "phase wait waits for conditions.allOf[0] on configmaps "+e.namespace+"/kept since ")
	if line := e.awaitWaiting("deleted", "phase delete waits for configmaps "+e.namespace+"/held to be gone since "); !strings.Contains(line, "example.com/held") {
		t.Errorf("got message %q, want the finalizer in it", line)
	}
	e.awaitWaiting("pulled", "phase task waits for container container of Pod ")
	if line := e.awaitWaiting("pulled", "phase task waits for "); !strings.Contains(line, "(ImagePullBackOff)") || !strings.Contains(line, "Back-off pulling image x") {
		t.Errorf("got message %q, want the reason of the kubelet in it", line)
	}
	// At the end no message says that a phase waits.
	e.kubectl("patch", "configmap", "kept", "--type=merge", "-p", `{"data":{"ready":"yes"}}`)
	set := e.wantEnd("conditions", "complete wait=complete; 100%")
	for _, condition := range set.Status.Conditions {
		if strings.Contains(condition.Message, "waits for") {
			t.Errorf("condition %s at the end: got message %q", condition.Type, condition.Message)
		}
	}
}

// The kubelet refuses the log while the Pod runs.
func TestActionSetLogRefused(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	n := e.startNode(map[string]program{"held": func(ctx context.Context, c *call) int { held.pass(ctx, c); return 0 }})
	n.mu.Lock()
	n.refuseLogs = func(string, bool) int { return http.StatusInternalServerError }
	n.mu.Unlock()
	e.run(nil)
	e.startRun("silent", "  phases: ["+taskPhase("task", "held")+"]\n")
	held.await(e.env)
	line := e.awaitWaiting("silent", "phase task waits for Pod ")
	if !strings.Contains(line, "to end, and for its log, which cannot be read") {
		t.Errorf("got message %q, want that the log cannot be read", line)
	}
	// The message is written again only when the phase waits for something else.
	version := e.getSet("silent").ResourceVersion
	close(held.open)
	e.awaitWaiting("silent", "phase task waits for the log of container container of Pod ")
	history, err := e.client.CrV1alpha1().ActionSets(e.namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version, FieldSelector: "metadata.name=silent"})
	if err != nil {
		t.Fatal(err)
	}
	defer history.Stop()
	if first := <-history.ResultChan(); first.Object.(*v1alpha1.ActionSet).ResourceVersion != e.getSet("silent").ResourceVersion {
		t.Error("the ActionSet was written more than once")
	}
}

func TestActionSetCommandWaits(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": func(ctx context.Context, c *call) int { held.pass(ctx, c); return 0 }})
	e.startPod("one", "main")
	e.run(nil)
	e.startRun("runs", "  phases: ["+execPhase("exec", "held", "")+"]\n")
	held.await(e.env)
	e.awaitWaiting("runs", "phase exec waits for the command in Pod "+e.namespace+"/one to end since ")
	close(held.open)
	e.wantEnd("runs", "complete exec=complete; 100%")
}
