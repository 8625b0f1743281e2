// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives outputs of many phases that are large, long, or without an end. KubeTasks
// with small and with large outputs end meanwhile, and what waits can be cancelled and deleted.
func TestActionSetOutputMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	held := func(bytes int) program {
		line := `###Phase-output###: {"key":"k","value":"` + strings.Repeat("x", bytes)
		return func(ctx context.Context, c *call) int {
			_, _ = io.WriteString(c.stdout, line)
			<-ctx.Done()
			return 143
		}
	}
	e.startNode(map[string]program{
		"unended": held(1_500_000), // the largest line that is read
		"endless": held(3_000_000),
		"small": func(ctx context.Context, c *call) int { // small outputs are held as long as the container runs
			c.output("k", strings.Repeat("x", 30_000))
			<-ctx.Done()
			return 143
		},
		"large": func(_ context.Context, c *call) int { c.output("k", strings.Repeat("x", 500_000)); return 0 },
		"quick": func(_ context.Context, c *call) int { c.output("k", "v"); return 0 },
	})
	const pods, containers = 10, 10
	var podNames, containerNames []string
	for i := range containers {
		containerNames = append(containerNames, fmt.Sprint("c", i))
	}
	for i := range pods {
		podNames = append(podNames, fmt.Sprint("many-", i))
		e.startPod(podNames[i], containerNames...)
	}
	all := func(command string) string {
		return fmt.Sprintf("{func: KubeExecAll, name: one, args: {namespace: $NS, pods: '%s', containers: '%s', command: [%s]}}",
			strings.Join(podNames, " "), strings.Join(containerNames, " "), command)
	}
	p := e.startLimitedActions()
	tasks := map[string]int{"small": 350, "endless": 200, "unended": 100, "large": 50}
	blueprints := map[string]string{
		"exec": goPhases(strings.ReplaceAll(execPhase("one", "unended", ", container: c0"), "pod: one", "pod: many-0")),
		"all":  goPhases(all("unended")),
	}
	runs := map[string]int{"exec": 80, "all": 3} // of one namespace run 60
	for name, count := range tasks {
		blueprints[name], runs[name] = goPhases(taskPhase("one", name)), count
	}
	for name, blueprint := range blueprints {
		e.blueprint(name, blueprint)
		for i := range runs[name] {
			e.actionSet(fmt.Sprintf("%s-%d", name, i), strings.ReplaceAll(goOnNamespace, "$ME", name))
		}
	}
	e.eventually(func() string {
		p.mustRun(t)
		sets, err := e.client.CrV1alpha1().ActionSets(e.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		running, complete, forPlace, forStream := 0, 0, 0, 0
		for i := range sets.Items {
			set := &sets.Items[i]
			if set.Status == nil {
				continue
			}
			if set.Status.State == v1alpha1.StateComplete {
				complete++
			}
			progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
			if progressing == nil {
				continue
			}
			if strings.Contains(progressing.Message, " to end since ") {
				running++
			}
			if strings.Contains(progressing.Message, "12 commands at a time may have outputs of more than 32 KiB") {
				forPlace++
			}
			if strings.Contains(progressing.Message, "80 commands run at a time") {
				forStream++
			}
		}
		if complete < tasks["large"] || running < tasks["small"]+tasks["unended"] || forPlace < 45 || forStream < 20 {
			return fmt.Sprintf("%d ActionSets are complete, %d wait for a Pod or a command, %d for a place, and %d for a stream; want %d, %d, 45, and 20 at least",
				complete, running, forPlace, forStream, tasks["large"], tasks["small"]+tasks["unended"])
		}
		return ""
	})
	e.startRun("honest", "  phases: ["+taskPhase("one", "quick")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustRun(t)

	e.cancelAndDelete(runs, func(name, set, message string) {
		complete := name == "large" && message == "" // before it was cancelled
		if !complete && (name != "endless" || !strings.Contains(message, "OutputTooLarge: ")) {
			e.wantCancelled(name, set, message)
		}
	})
	// All places and streams are free again.
	e.startRun("last", "  phases: ["+taskPhase("one", "large")+", "+strings.Replace(all("quick"), "name: one", "name: two", 1)+"]\n")
	e.wantEnd("last", "complete one=complete two=complete; 100%")
	p.mustHaveFit(t)
}
