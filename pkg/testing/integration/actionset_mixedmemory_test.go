// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives all of this together: large outputs, snapshots, arguments, objects that a Wait
// reads, specs, templates, answers, subjects, and what ActionSets name. So does the next process, which continues what runs. Small ActionSets end
// meanwhile, and all that waits can be cancelled and deleted.
func TestActionSetMixedMemory(t *testing.T) { testMixedMemory(t, 100) }

// So does one with half of that limit, and half as many ActionSets.
func TestActionSetMixedHalfMemory(t *testing.T) { testMixedMemory(t, 50) }

func testMixedMemory(t *testing.T, percent int64) {
	e := newActionsMemoryEnv(t)
	line := `###Phase-output###: {"key":"k","value":"` + strings.Repeat("x", 1_500_000)
	e.startNode(map[string]program{
		"unended": func(ctx context.Context, c *call) int {
			_, _ = io.WriteString(c.stdout, line)
			<-ctx.Done()
			return 143
		},
		"small": func(ctx context.Context, c *call) int {
			c.output("k", strings.Repeat("x", 30_000))
			<-ctx.Done()
			return 143
		},
		"quick": func(_ context.Context, c *call) int { c.output("k", "v"); return 0 },
	})
	kinds := e.mixedKinds(e.mixedObjects())
	all, most := map[string]int{}, 0
	for name, kind := range kinds {
		kind.count = max(1, kind.count*int(percent)/100)
		kinds[name] = kind
		e.blueprint(name, kind.blueprint)
		all[name], most = kind.count, max(most, kind.count)
	}
	p := e.startActionsLimitedTo(percent)
	usual := e.honestRuns("usual")
	for i := range most { // each kind from the beginning
		for name, kind := range kinds {
			if i >= kind.count {
				continue
			}
			set := e.newSet(fmt.Sprintf("%s-%d", name, i), strings.ReplaceAll(goOnNamespace, "$ME", name))
			if kind.change != nil {
				kind.change(set)
			}
			e.createSet(set)
		}
		p.mustRun(t)
	}
	e.wantUndelayed(usual)
	for name, kind := range kinds {
		for i := range kind.count {
			set := e.awaitSet(fmt.Sprintf("%s-%d", name, i), func(set *v1alpha1.ActionSet) bool {
				return set.Status != nil && (set.Status.StartTime != nil || ended(set))
			})
			if kind.ends != "" && percent == 100 { // with less memory that takes much longer: fewer runs are kept
				set = e.awaitSet(set.Name, ended)
			}
			if message := set.Status.Error.Message; ended(set) && (kind.ends == "" || !strings.Contains(message, kind.ends)) {
				t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set.Name, message, kind.ends)
			}
			p.mustRun(t)
		}
	}
	e.awaitUsual(usual)
	p.mustHaveFit(t)

	p = e.startActionsLimitedTo(percent)
	e.honestRun("after")
	e.cancelAndDelete(all, func(name, set, message string) {
		if kinds[name].ends == "" && !strings.HasPrefix(message, "ControllerRestarted: ") {
			e.wantCancelled(name, set, message)
		}
	})
	p.mustHaveFit(t)
}

// mixedKind is a kind of ActionSets, with the Blueprint of all of them.
type mixedKind struct {
	count     int
	blueprint string
	change    func(*v1alpha1.ActionSet)
	// ends is in the error of each; "" if they run until they are cancelled.
	ends string
}

// mixedLarge and mixedSecrets are how many large ConfigMaps and Secrets there are.
const mixedLarge, mixedSecrets = 40, 20

// mixedObjects creates what the ActionSets name. It returns the names of Pods, and those of the containers in each.
func (e *actionsEnv) mixedObjects() (podNames, containerNames []string) {
	e.Helper()
	for i := range 10 {
		containerNames = append(containerNames, fmt.Sprint("c", i))
	}
	for i := range 10 {
		podNames = append(podNames, fmt.Sprint("many-", i))
		e.startPod(podNames[i], containerNames...)
	}
	e.createConfigMap("never", map[string]string{"ready": "no"})
	e.createConfigMap("pods-one", nil) // what these would create
	e.createConfigMap("weight-one", nil)
	for i := range mixedLarge {
		e.createConfigMap(fmt.Sprint("large-", i), map[string]string{"text": strings.Repeat("x", 1<<20-1000)})
	}
	for i := range mixedSecrets {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("heavy-", i)}, Data: map[string][]byte{"a": make([]byte, corev1.MaxSecretSize-1000)}}
		if _, err := e.kube.CoreV1().Secrets(e.namespace).Create(e.Context(), secret, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
	}
	e.createRunningPods("db", 40, strings.Repeat("x", 1<<20))
	return podNames, containerNames
}

func (e *actionsEnv) mixedKinds(podNames, containerNames []string) map[string]mixedKind {
	const text, never = "{{ $x := repeat 100000 \"x\" }}{{ range 9 }}{{ $x }}{{ end }}", "objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: never}"
	conditions := func(n int, of func(i int) string) string {
		var texts []string
		for i := range n {
			texts = append(texts, of(i))
		}
		return "{func: Wait, name: long, args: {timeout: 1h, conditions: {anyOf: [" + strings.Join(texts, ", ") + "]}}}"
	}
	waits := conditions(1, func(int) string { return "{condition: 'false', " + never + "}" })
	filler := strings.Repeat("x", 900_000)
	create := func(spec string) string {
		return goPhases("{func: KubeOps, name: one, args: {operation: create, namespace: $NS, spec: " + strconv.Quote("{apiVersion: v1, kind: ConfigMap, metadata: {name: none}, a: ["+spec+"1]}") + "}}")
	}
	many := map[string]string{}
	for i := range 20_000 {
		many[fmt.Sprintf("k%05d", i)] = "v"
	}
	names := func(set *v1alpha1.ActionSet) {
		set.Spec.Actions = slices.Repeat(set.Spec.Actions, 12)
		for i := range set.Spec.Actions {
			set.Spec.Actions[i].Secrets = map[string]v1alpha1.ObjectReference{}
			for n := range 7 {
				set.Spec.Actions[i].Secrets[fmt.Sprint("n", n)] = v1alpha1.ObjectReference{Name: fmt.Sprint("heavy-", (i*7+n)%mixedSecrets)}
			}
		}
	}
	repeated := func(n int) func(*v1alpha1.ActionSet) {
		return func(set *v1alpha1.ActionSet) { set.Spec.Actions = slices.Repeat(set.Spec.Actions, n) }
	}
	return map[string]mixedKind{
		"unended": {60, goPhases(taskPhase("one", "unended")), nil, ""},
		"small":   {300, goPhases(taskPhase("one", "small")), nil, ""},
		"all": {3, goPhases(fmt.Sprintf("{func: KubeExecAll, name: one, args: {namespace: $NS, pods: '%s', containers: '%s', command: [unended]}}",
			strings.Join(podNames, " "), strings.Join(containerNames, " "))), nil, ""},
		"snapshot": {200, goPhases(waits, "{func: KubeTask, name: two, args: {image: none, command: [sh, '"+filler+"']}}"), nil, ""},
		"values":   {60, goPhases(conditions(2000, func(int) string { return "{condition: '{{ if true }}false{{ end }}', " + never + "}" })), nil, ""},
		"many": {16, goPhases(conditions(600, func(i int) string {
			return fmt.Sprintf("{condition: 'false', objectReference: {kind: K%d, apiVersion: v1, resource: configmaps, namespace: $NS, name: large-%d}}", i, i%mixedLarge)
		})), nil, ""},
		"spec":      {32, create(strings.Repeat("{},", 300_000)), nil, "takes more than 8388608 bytes of memory when it is read"},
		"numbers":   {32, create(strings.Repeat("1,", 450_000)), nil, "takes more than 8388608 bytes of memory when it is read"},
		"kept":      {16, goPhases("{func: KubeTask, name: one, args: {namespace: $NS, image: none, command: [sh, '" + templateBombs["kept"].template + "']}}"), nil, tooExpensive},
		"fromjson":  {16, goPhases("{func: KubeTask, name: one, args: {namespace: $NS, image: none, command: [sh, '" + templateBombs["fromjson"].template + "']}}"), nil, tooExpensive},
		"args":      {6, "go:\n  phases: [{func: KubeExec, name: one, args: {namespace: $NS, pod: none, container: none, command: [sh, '{{ repeat 250000 \"x\" }}']}}]\n", repeated(300), `pods "none" not found`},
		"artifacts": {6, "go:\n  outputArtifacts: {a: {kopiaSnapshot: '" + text + "'}}\n  phases: [" + strings.ReplaceAll(waits, "'false'", "'true'") + "]\n", repeated(300), "ArtifactsTooLarge: "},
		"options":   {10, goPhases(waits), func(set *v1alpha1.ActionSet) { set.Spec.Actions[0].Options = many }, ""},
		"flat":      {60, goPhases(waits), func(set *v1alpha1.ActionSet) { set.Spec.Actions[0].Options = map[string]string{"filler": filler} }, ""},
		"decoded":   {20, goPhases(waits) + unusedActions(), nil, ""},
		"copies":    {16, goPhases("{func: KubeTask, name: one, args: {image: none, command: [sh, '" + filler + "']}}"), repeated(1000), "the snapshot of the run is too large: "},
		"weight":    {16, goPhases(createPhase("one")), names, `configmaps "weight-one" already exists`},
		"pods": {16, goPhases(createPhase("one")), func(set *v1alpha1.ActionSet) {
			set.Spec.Actions[0].Object = v1alpha1.ObjectReference{Kind: "StatefulSet", Name: "db", Namespace: e.namespace}
		}, `configmaps "pods-one" already exists`},
	}
}
