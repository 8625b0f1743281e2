// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/merge"
)

// Random histories end in the same object whichever strategy applies it, at whichever time the strategy is switched, and whichever request fails.
func TestStrategiesApplyTheSame(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 37))
			method := []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateInPlace, v1alpha1.ChildUpdateRecreate}[random.IntN(2)]
			worlds := map[string]*strategyTest{"dynamic apply": newStrategyTest(t, method), "server-side apply": newStrategyTest(t, method), "both": newStrategyTest(t, method)}
			for step := range 8 {
				edit := randomEdit(random, worlds["both"].desired)
				desired, fails := randomDeployment(random), random.IntN(6)
				var want *unstructured.Unstructured
				for _, name := range []string{"dynamic apply", "server-side apply", "both"} {
					world := worlds[name]
					strategy := func() v1alpha1.ApplyStrategy {
						return map[string][]v1alpha1.ApplyStrategy{"dynamic apply": {dynamic, dynamic}, "server-side apply": {serverSide, serverSide},
							"both": {dynamic, serverSide}}[name][random.IntN(2)]
					}
					if step > 0 {
						world.edit(edit)
						world.settle(strategy, world.desired, 0)
					}
					world.desired = desired
					world.settle(strategy, desired, fails)
					got := withoutAccidents(world.child())
					if want == nil {
						want = got
					}
					if diff := gocmp.Diff(want, got); diff != "" {
						t.Fatalf("step %d, %s: desired %s: the object differs (-dynamic apply +%s):\n%s", step, method, desired, name, diff)
					}
				}
			}
		})
	}
}

// settle syncs until nothing is requested about the child. If a number is given, the request with that number fails first.
func (s *strategyTest) settle(strategy func() v1alpha1.ApplyStrategy, body string, fails int) {
	s.t.Helper()
	if fails > 0 {
		s.failRequest(fails)
		_ = s.start(strategy()).answered(phaseSync, body)
		s.api.fails("none", 0, "")
	}
	for range 6 {
		s.api.did()
		if err := s.start(strategy()).answered(phaseSync, body); err != nil {
			s.t.Fatal(err)
		}
		if requests := s.api.did(); !strings.Contains(strings.Join(requests, " "), "deployments") {
			return
		}
	}
	s.t.Fatalf("it does not settle: %s", body)
}

// withoutAccidents returns what must be the same of an object.
func withoutAccidents(o *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(annotation, _ string) bool { return merge.IsRecord(annotation) })
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	metadata := o.Object["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		delete(metadata, field)
	}
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	for _, list := range containers[0].(map[string]any) { // the strategies add elements at other places
		if list, ok := list.([]any); ok {
			slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	return o
}

// some returns some of the parts, joined.
func some(random *rand.Rand, parts ...string) string {
	var chosen []string
	for _, part := range parts {
		if random.IntN(2) == 0 {
			chosen = append(chosen, part)
		}
	}
	return strings.Join(chosen, ",")
}

// randomDeployment is the answer of a hook with a Deployment, from few labels, ports and variables. Lists are always there: where one is gone from the answer,
// dynamic apply removes the elements of others, too.
func randomDeployment(random *rand.Rand) string {
	value := func() int { return random.IntN(3) }
	labels := some(random, fmt.Sprintf(`"b":"%d"`, value()), fmt.Sprintf(`"c":"%d"`, value()))
	if labels != "" {
		labels = "," + labels
	}
	ports := some(random, `{"containerPort":80}`, `{"containerPort":53,"protocol":"UDP","name":"dns"}`, fmt.Sprintf(`{"containerPort":53,"protocol":"TCP","hostPort":%d}`, 1+value()))
	env := some(random, fmt.Sprintf(`{"name":"B","value":"%d"}`, value()), fmt.Sprintf(`{"name":"C","value":"%d"}`, value()))
	return deploymentWith(labels, fmt.Sprintf(`,"ports":[{"containerPort":1}%s],"env":[{"name":"A","value":"%d"}%s]`, after(ports), value(), after(env)))
}

func after(list string) string {
	if list == "" {
		return ""
	}
	return "," + list
}

// randomEdit is a change by another client: of a field that the hook desires, or of its own. A field that both desire is not removed with server-side apply.
func randomEdit(random *rand.Rand, desired string) func(*unstructured.Unstructured) {
	key := []string{"b", "c", "theirs"}[random.IntN(3)]
	if !strings.Contains(desired, `"`+key+`":`) {
		key = "theirs"
	}
	return setLabel(key, fmt.Sprint(random.IntN(3)))
}
