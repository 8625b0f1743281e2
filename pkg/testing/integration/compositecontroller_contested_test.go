// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/faultproxy"
)

// mostWrites returns how many writes an engine may have made by now to an object that never settles: the immediate ones, one for each
// delay, which doubles up to a minute, and a few that other changes have led to.
func mostWrites(since *unstructured.Unstructured) int {
	age := time.Since(since.GetCreationTimestamp().Time)
	return controller.FreeRewrites + 5 + int(math.Log2(max(1, age.Seconds()))) + int(age.Minutes())
}

func TestCompositeHookNeverSettles(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*hookCall, int64) any{
		"the status": func(_ *hookCall, n int64) any { return tree{"status": tree{"n": n}} },
		"a child": func(call *hookCall, n int64) any {
			child := tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": call.name()}, "data": tree{"n": fmt.Sprint(n)}}
			return tree{"children": list{child}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngineEnv(t)
			var journal faultproxy.Journal
			e.run(&journal)
			var calls atomic.Int64
			e.hook.Answers(func(call *hookCall) any { return answer(call, calls.Add(1)) })
			e.serves(configMaps)
			parent := e.parent("web")
			e.awaitReason(v1alpha1.ReasonNeverSettles)
			e.awaitEventOn(parent, v1alpha1.ReasonNeverSettles, e.namespace+"/web")
			count := func() (writes int) {
				got := writesOf(&journal, e.namespace)
				return max(got["update widgets/status"], got["update configmaps"])
			}
			// Meanwhile the engine serves other parents as usual. For these the hook always gives the same answer.
			e.hook.Answers(func(call *hookCall) any {
				if call.name() == "web" {
					return answer(call, calls.Add(1))
				}
				return oneConfigMap(call)
			})
			before := count()
			for i := range 10 {
				other := fmt.Sprint("other-", i)
				e.parent(other)
				e.awaitChild(widget, other, has(1, "status", "seen"))
			}
			if writes, most := count(), mostWrites(parent)+2*10; writes > most || before < controller.FreeRewrites {
				t.Errorf("got %d writes, %d of them before the event, want %d at most", writes, before, most)
			}
			// An edit of the user leads to an immediate sync, and an answer that stays the same ends the contest.
			last := tree{"status": tree{"n": -1}, "children": list{}}
			e.hook.Answers(func(call *hookCall) any {
				if call.name() == "web" {
					return last
				}
				return oneConfigMap(call)
			})
			e.change(widget, "web", "{spec: {new: true}}")
			e.awaitChild(widget, "web", has(2, "status", "observedGeneration"), has(-1, "status", "n"))
			e.awaitReason(v1alpha1.ReasonServing)
		})
	}
}

func TestCompositeClientReverts(t *testing.T) {
	t.Parallel()
	for name, contest := range map[string]struct {
		revert   func(e *engineEnv, round int)
		repaired func(e *engineEnv)
		event    string
		write    string
	}{
		"by editing a child": {
			func(e *engineEnv, round int) {
				e.change("ConfigMap", "web", fmt.Sprintf("{data: {who: round-%d}}", round))
			},
			func(e *engineEnv) { e.awaitChild("ConfigMap", "web", has("me", "data", "who")) },
			"ChildrenStuck", "update configmaps",
		},
		"by deleting a child": {
			func(e *engineEnv, round int) { e.remove("ConfigMap", "web") },
			func(e *engineEnv) { e.awaitChild("ConfigMap", "web", has("me", "data", "who")) },
			"ChildrenStuck", "create configmaps",
		},
		"by writing the status": {
			func(e *engineEnv, round int) {
				e.change(widget, "web", fmt.Sprintf("{status: {rumour: %d}}", round), "status")
			},
			func(e *engineEnv) { e.awaitChild(widget, "web", has(nil, "status", "rumour")) },
			"StatusStuck", "update widgets/status",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngineEnv(t)
			var journal faultproxy.Journal
			e.run(&journal)
			e.hook.Answers(oneConfigMap)
			e.serves(configMaps)
			parent := e.parent("web", "{spec: {who: me}}")
			e.awaitChild(widget, "web", has(1, "status", "seen"))
			e.awaitShown("web")
			before := writesOf(&journal, e.namespace)[contest.write]
			const rounds = controller.FreeRewrites + 2
			for round := range rounds {
				contest.revert(e, round)
				contest.repaired(e)
				e.awaitShown("web")
			}
			e.awaitEventOn(parent, contest.event, "")
			if events := e.countEvents(parent, contest.event); events != 1 {
				t.Errorf("got %d events %s, want 1", events, contest.event)
			}
			if writes := writesOf(&journal, e.namespace)[contest.write] - before; writes != rounds {
				t.Errorf("got %d writes after %d reverts, want one each", writes, rounds)
			}
			e.awaitReason(v1alpha1.ReasonServing) // the hook is not at fault
			// The user's next edit does not wait for the backoff.
			contest.revert(e, rounds)
			e.change(widget, "web", "{spec: {who: me, new: true}}")
			e.awaitChild(widget, "web", has(2, "status", "observedGeneration"))
			contest.repaired(e)
		})
	}
}
