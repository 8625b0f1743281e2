// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// startPod creates a Pod on the node whose containers sleep, and waits until it runs.
func (e *actionsEnv) startPod(name string, containers ...string) {
	e.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: e.node.name, TerminationGracePeriodSeconds: ptr.To[int64](0)},
	}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: "sleep"})
	}
	if _, err := e.kube.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string {
		if pod, err := e.kube.CoreV1().Pods(e.namespace).Get(e.Context(), name, metav1.GetOptions{}); err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("Pod %s is not running: %v", name, err)
		}
		return ""
	})
}

// execPhase returns a phase that runs a command in a Pod with KubeExec.
func execPhase(phase, command, more string) string {
	return fmt.Sprintf("{func: KubeExec, name: %s, args: {namespace: $NS, pod: one, command: [%s]%s}}", phase, command, more)
}

var commandScenarios = map[string]scenario{
	"kubeexec": {
		blueprint: goPhases(strings.ReplaceAll(execPhase("exec", "greets, again", ""), "pod: one", "pod: solo")),
		events:    []string{"SA go", "SP exec", "EP exec", "UC"},
		end:       "complete exec=complete; 100%",
	},
	"kubeexec-long": {
		blueprint: goPhases(execPhase("exec", "long", ", container: main")),
		events:    []string{"SA go", "SP exec", "EP exec", "UC"},
		end:       "complete exec=complete; 100%",
	},
	"kubeexec-fails": {
		blueprint: goPhases(execPhase("exec", "exits-7", ", container: main"), createPhase("second")) + withDefer(createPhase("cleanup")),
		events: []string{"SA go", "SP exec", "F Failed to execute phase: Failed to exec command in pod: command terminated with exit code 7.\nstdout: out\nstderr: err",
			"SD cleanup", "ED cleanup"},
		end: "failed exec=failed second=pending defer cleanup=complete; 0%; Failed to exec command in pod: command terminated with exit code 7.\nstdout: out\nstderr: err",
	},
	"kubeexec-which": {
		blueprint: goPhases(execPhase("exec", "greets", "")),
		events:    []string{"SA go", "SP exec", "F Failed to execute phase: Failed to exec command in pod: a container name must be specified for pod one, choose one of: [main side]"},
		end:       "failed exec=failed; 0%; Failed to exec command in pod: a container name must be specified for pod one, choose one of: [main side]",
	},
	"kubeexec-no-pod": {
		blueprint: goPhases(strings.ReplaceAll(execPhase("exec", "greets", ""), "pod: one", "pod: none")),
		events:    []string{"SA go", "SP exec", `F Failed to execute phase: Failed to exec command in pod: pods "none" not found`},
		end:       `failed exec=failed; 0%; Failed to exec command in pod: pods "none" not found`,
	},
	"kubeexecall": {
		blueprint: goPhases("{func: KubeExecAll, name: exec, args: {namespace: $NS, pods: 'one two', containers: 'main side', command: [greets]}}"),
		events:    []string{"SA go", "SP exec", "EP exec", "UC"},
		end:       "complete exec=complete; 100%",
	},
	"kubeexecall-fails": {
		blueprint: goPhases("{func: KubeExecAll, name: exec, args: {namespace: $NS, pods: 'one two', containers: main, command: [fails-in, two]}}"),
		events: []string{"SA go", "SP exec",
			"F Failed to execute phase: Pod two, container main: Failed to exec command in pod: command terminated with exit code 1.\nstdout: \nstderr: not in two"},
		end: "failed exec=failed; 0%; Pod two, container main: Failed to exec command in pod: command terminated with exit code 1.\nstdout: \nstderr: not in two",
	},
}

func TestActionSetCommandOutput(t *testing.T) {
	e := newActionsEnv(t)
	e.startNode(map[string]program{
		"greets": func(_ context.Context, c *call) int {
			c.print("hello")
			c.output("from", c.pod.Name+"/"+c.container)
			c.output(c.pod.Name+c.container, strings.Join(c.command, " "))
			return 0
		},
		"long":    images["long"],
		"exits-7": func(_ context.Context, c *call) int { c.print("out"); fmt.Fprintln(c.stderr, "err"); return 7 },
		"fails-in": func(_ context.Context, c *call) int {
			if c.pod.Name != c.command[1] {
				return 0
			}
			fmt.Fprintln(c.stderr, "not in", c.pod.Name)
			return 1
		},
	})
	e.startPod("solo", "main")
	e.startPod("one", "main", "side")
	e.startPod("two", "main", "side")
	e.run(nil)
	e.playScenarios(commandScenarios)

	for set, want := range map[string]map[string]any{
		"kubeexec":      {"from": "solo/main", "solomain": "greets again"},
		"kubeexec-long": {"before": "y", "long": strings.Repeat("z", longValue)},
		"kubeexecall":   {"from": "two/side", "onemain": "greets", "oneside": "greets", "twomain": "greets", "twoside": "greets"},
	} {
		if diff := cmp.Diff(want, outputs(t, e.getSet(set), "exec")); diff != "" {
			t.Errorf("output of ActionSet %s (-want +got):\n%s", set, diff)
		}
	}
	ran := map[string]int{}
	for _, command := range e.node.executed() {
		ran[command]++
	}
	want := map[string]int{}
	for _, command := range []string{
		"solo/main: greets again", "one/main: long", "one/main: exits-7", "one/main: greets", "one/side: greets", "two/main: greets", "two/side: greets",
		"one/main: fails-in two", "two/main: fails-in two",
	} {
		want[e.namespace+"/"+command] = 1
	}
	if diff := cmp.Diff(want, ran); diff != "" {
		t.Errorf("commands executed (-want +got):\n%s", diff)
	}
}

// A command is not executed again when its stream breaks.
func TestActionSetCommandStreamBreaks(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": func(ctx context.Context, c *call) int { c.print("so far"); held.pass(ctx, c); return 0 }})
	e.startPod("one", "main")
	e.run(nil)
	e.startRun("breaks", "  phases: ["+execPhase("exec", "held", "")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	held.await(e.env)
	e.node.breakStreams()
	set := e.awaitEnd("breaks")
	if set.Status.Actions[0].Phases[0].State != v1alpha1.StateFailed || set.Status.Actions[0].DeferPhase.State != v1alpha1.StateComplete ||
		!strings.HasPrefix(set.Status.Error.Message, "Failed to exec command in pod: ") {
		t.Errorf("got %s, want the phase failed and the deferPhase complete", summary(set))
	}
	if ran := e.node.executed(); len(ran) != 1 {
		t.Errorf("got %d executions of the command, want 1", len(ran))
	}
}
