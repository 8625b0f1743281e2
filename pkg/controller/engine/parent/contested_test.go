// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

const oneChild = `{"status":{"ready":1},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"a"}},"data":{"k":"1"}}]}`

// opponents are clients that revert what the engine writes as soon as they observe it.
var opponents = map[string]struct {
	method v1alpha1.ChildUpdateMethod
	act    func(*world)
}{
	"who edits a child": {v1alpha1.ChildUpdateInPlace,
		func(w *world) { w.edit("a", setData("theirs")) }},
	"who deletes a child": {v1alpha1.ChildUpdateInPlace,
		func(w *world) { delete(w.children, configMaps.key("ns", "a")) }},
	"who deletes a child that is not updated": {v1alpha1.ChildUpdateOnDelete,
		func(w *world) { delete(w.children, configMaps.key("ns", "a")) }},
	"who writes the status": {v1alpha1.ChildUpdateInPlace,
		func(w *world) { w.setStatus(map[string]any{"theirs": true}) }},
	"who writes another status each time": {v1alpha1.ChildUpdateInPlace,
		func(w *world) { w.setStatus(map[string]any{"theirs": w.version}) }},
}

func TestContestedRepairsBackOff(t *testing.T) {
	for name, opponent := range opponents {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withMethod(opponent.method))
			w.sync(oneChild)
			w.want(oneChild)
			repairs, warnings := 0, 0
			for end := w.now.Add(time.Hour); w.now.Before(end); {
				opponent.act(w)
				before := w.now
				for { // until it is repaired
					did := w.sync(oneChild)
					warnings += len(w.last.stuck) + len(w.last.warnings())
					if len(did) > 0 {
						break
					}
					if w.last.requeueAfter == 0 {
						t.Fatal("it is not repaired, and not looked at again")
					}
					w.now = w.now.Add(w.last.requeueAfter)
				}
				if waited := w.now.Sub(before); repairs < controller.FreeRewrites && waited > 0 || waited > controller.MaxRewriteBackoff {
					t.Fatalf("repair %d waits %s", repairs, waited)
				}
				repairs++
				w.now = w.now.Add(roundTrip)
				w.want(oneChild) // it observes that all is well
				if w.last.problem != nil {
					t.Fatalf("the hook is blamed: %v", w.last.problem)
				}
			}
			if least, most := 55, controller.FreeRewrites+6+60; repairs < least || repairs > most {
				t.Errorf("%d repairs in an hour, want %d to %d", repairs, least, most)
			}
			if warnings != 1 {
				t.Errorf("%d warnings, want 1", warnings)
			}
		})
	}
}

func TestRepairBackoff(t *testing.T) {
	contested := func(t *testing.T) *world {
		w := newWorld(t)
		w.sync(oneChild)
		for range 20 {
			w.want(oneChild)
			w.edit("a", setData("theirs"))
			for len(w.sync(oneChild)) == 0 {
				w.now = w.now.Add(w.last.requeueAfter)
			}
		}
		w.want(oneChild)
		w.edit("a", setData("theirs"))
		w.want(oneChild)
		if w.last.requeueAfter == 0 || w.last.requeueAfter > controller.MaxRewriteBackoff {
			t.Fatalf("the next repair is after %s", w.last.requeueAfter)
		}
		return w
	}
	t.Run("is written immediately when something else is desired", func(t *testing.T) {
		w := contested(t)
		w.want(wants(configMap("a", "2")), "update ConfigMap ns/a", "status")
	})
	t.Run("is repaired immediately when the spec changes", func(t *testing.T) {
		w := contested(t)
		tree, err := treeOf(w.parent)
		if err != nil {
			t.Fatal(err)
		}
		tree["metadata"].(map[string]any)["generation"] = 4
		w.parent = textOf(t, tree)
		w.want(oneChild, "update ConfigMap ns/a", "status")
	})
	t.Run("is repaired immediately again after a while of peace", func(t *testing.T) {
		w := contested(t)
		w.now = w.now.Add(w.last.requeueAfter)
		w.want(oneChild, "update ConfigMap ns/a")
		w.want(oneChild)
		w.now = w.now.Add(5 * time.Minute)
		for range controller.FreeRewrites {
			w.edit("a", setData("theirs"))
			w.want(oneChild, "update ConfigMap ns/a")
			w.want(oneChild)
		}
	})
	t.Run("holds up no other child", func(t *testing.T) {
		w := contested(t)
		w.want(`{"status":{"ready":1},"children":[`+configMap("a", "1")+`,`+configMap("b", "1")+`]}`, "create ConfigMap ns/b")
	})
}

func TestRareEditsAreRepaired(t *testing.T) {
	w := newWorld(t)
	w.sync(oneChild)
	for range 100 {
		w.want(oneChild)
		w.now = w.now.Add(time.Minute)
		w.edit("a", setData("theirs"))
		w.want(oneChild, "update ConfigMap ns/a")
	}
}
