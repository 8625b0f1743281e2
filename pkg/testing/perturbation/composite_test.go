// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/controller/composite"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

func TestCompositeController(t *testing.T) {
	hook := startWidgetHook(t)
	type acts = []perturbation.Act
	serve := act("create the CompositeController", hook.serve(serving{}), end{noParent: true}.reached)
	serveFinalizing := act("create the CompositeController, with a finalize hook", hook.serve(serving{finalize: true}), end{noParent: true, finalizer: true}.reached)
	serveGenerating := act("create the CompositeController, which generates selectors", hook.serve(serving{generateSelector: true}), end{noParent: true}.reached)
	serveCustomizing := act("create the CompositeController, with a customize hook", hook.serve(serving{customize: true}), end{noParent: true}.reached)
	parent := func(e end) perturbation.Act { return act("create the parent", makeWidget(e), e.reached) }
	var (
		empty      = end{}
		one        = end{value: "a", configMaps: 1}
		oneSecret  = end{value: "a", secrets: 1}
		both       = end{value: "a", configMaps: 2, secrets: 1}
		finalizing = func(e end) end { e.finalizer = true; return e }
		with       = func(e end, other string) end { e.others = []string{other}; return e }
		value      = func(e end, value string) end { e.value = value; return e }
	)
	tests := map[string]struct {
		given, acts acts
		flicker     func(context.Context, *perturbation.User) error
		// children has the lives of the children by name. No state may be missing or come twice: that would be a write or a child that
		// nothing has asked for.
		children map[string]lives
		// finalizer is true if parents have a finalizer, which stays until the hook has finished.
		finalizer bool
		// taken is true if another object has a child's name: then the create is repeated.
		taken bool
	}{
		"from nothing": {
			acts: acts{serveFinalizing, parent(finalizing(one))}, flicker: flickerValue, finalizer: true,
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
		},
		"children of two types": {
			given: acts{serve}, acts: acts{parent(both)}, flicker: flickerValue,
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "configmaps/web-1": {{"a"}}, "secrets/web-0": {{"a"}}},
		},
		"generated selector": {
			given: acts{serveGenerating}, flicker: flickerValue,
			acts:     acts{parent(one), act("edit", editWidget(spec{"value": "b"}), value(one, "b").reached)},
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}},
		},
		"adopt": {
			given:    acts{serve, act("create an orphan", makeConfigMap("web-0", "a", childLabels), with(end{noParent: true}, "configmaps/web-0 a (no owner)").reached)},
			acts:     acts{parent(one)},
			children: map[string]lives{"configmaps/web-0": {{"a (no owner)", "a"}}},
		},
		"adopt an undesired child": {
			given:    acts{serve, parent(one)},
			acts:     acts{act("create an orphan", makeConfigMap("web-9", "a", childLabels), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "configmaps/web-9": {{"a (no owner)", "a"}}},
		},
		"release and adopt again": {
			given: acts{serve, parent(one)}, taken: true,
			acts: acts{
				act("change the child's label", setLabel(configMaps, "web-0", "part-of", "other"), with(empty, "configmaps/web-0 a (no owner)").reached),
				act("restore the child's label", setLabel(configMaps, "web-0", "part-of", name), one.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a", "a (no owner)", "a"}}},
		},
		"update in place": {
			given: acts{serve, parent(one)}, flicker: flickerValue,
			acts:     acts{act("edit", editWidget(spec{"value": "b"}), value(one, "b").reached)},
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}},
		},
		"recreate": {
			given:    acts{serve, parent(oneSecret)},
			acts:     acts{act("edit", editWidget(spec{"value": "b"}), value(oneSecret, "b").reached)},
			children: map[string]lives{"secrets/web-0": {{"a"}, {"b"}}},
		},
		"drift": {
			given: acts{serve, parent(one)}, flicker: flickerValue,
			acts:     acts{act("another client edits the child", patch(configMaps, "web-0", map[string]any{"data": map[string]any{"value": "drift"}}), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a", "drift", "a"}}},
		},
		"scale up": {
			given: acts{serve, parent(one)}, flicker: flickerValue,
			acts:     acts{act("scale up", editWidget(spec{"configMaps": 2, "secrets": 1}), both.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "configmaps/web-1": {{"a"}}, "secrets/web-0": {{"a"}}},
		},
		"scale down": {
			given:    acts{serve, parent(both)},
			acts:     acts{act("scale down", editWidget(spec{"configMaps": 1, "secrets": 0}), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "configmaps/web-1": {{"a"}}, "secrets/web-0": {{"a"}}},
		},
		"child deleted": {
			given: acts{serve, parent(one)}, flicker: flickerValue,
			acts:     acts{act("another client deletes the child", remove(configMaps, "web-0", metav1.DeletePropagationBackground), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}, {"a"}}},
		},
		"finalize": {
			given: acts{serveFinalizing, parent(finalizing(both))}, finalizer: true,
			acts:     acts{act("delete the parent", remove(widgets, name, metav1.DeletePropagationBackground), end{noParent: true, finalizer: true}.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "configmaps/web-1": {{"a"}}, "secrets/web-0": {{"a"}}},
		},
		"parent not selected any more": {
			given: acts{serveFinalizing, parent(finalizing(one))}, finalizer: true,
			acts:     acts{act("remove the parent's label", setLabel(widgets, name, servedLabel, nil), end{finalizer: true, letGo: true}.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
		},
		"finalize switched off": {
			given:    acts{serveFinalizing, parent(finalizing(one))},
			acts:     acts{act("no finalize hook", patch(composites, "", map[string]any{"spec": spec{"hooks": spec{"finalize": nil}}}), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
		},
		"CompositeController deleted": {
			given: acts{serveFinalizing, parent(finalizing(one))},
			acts: acts{
				act("delete the CompositeController", removeController(composites), end{value: "a", configMaps: 1, noController: true}.reached),
				act("delete the parent", remove(widgets, name, metav1.DeletePropagationBackground), end{noParent: true, noController: true}.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
		},
		"invalid for a while": {
			given: acts{serveFinalizing, parent(finalizing(one)), foreign(finalizing(one))}, finalizer: true,
			acts:     invalidActs(composites, finalizing(one), hook.compositeForms(serving{finalize: true})),
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}, foreignChild: {{foreignState}}},
		},
		"CompositeController deleted while it is invalid": {
			given:    acts{serveFinalizing, parent(finalizing(one)), foreign(finalizing(one))},
			acts:     deletedWhileInvalidActs(composites, finalizing(one), spec{"parentResource": spec{"apiVersion": "a/b/c", "resource": ""}, "hooks": nil}),
			children: map[string]lives{"configmaps/web-0": {{"a"}}, foreignChild: {{foreignState}}},
		},
		"related objects": {
			given:    acts{serveCustomizing, act("create the parent", makeWidget(one, named(related)), one.reached)},
			acts:     relatedActs(one),
			children: map[string]lives{"configmaps/web-0": {{"a", "a-x", "a-y", "a"}}},
		},
		"other rules": {
			given:    acts{serveCustomizing, act("create the parent", makeWidget(one, named(related)), one.reached), relatedAct(one)},
			acts:     ruleActs(one),
			children: map[string]lives{"configmaps/web-0": {{"a", "a-x", "a", "a-x", "a"}}},
		},
		"foreign object has the child's name": {
			given: acts{serve, act("create a foreign object", makeConfigMap("web-0", "theirs", nil), with(end{noParent: true}, "configmaps/web-0 theirs (no owner)").reached)},
			acts: acts{
				act("create the parent", makeWidget(one), with(empty, "configmaps/web-0 theirs (no owner)").reached),
				act("delete the foreign object", remove(configMaps, "web-0", metav1.DeletePropagationBackground), one.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"theirs (no owner)"}, {"a"}}}, taken: true,
		},
		"parent deleted and created again": {
			given: acts{serve, parent(one)},
			acts: acts{act("delete the parent, and create it again",
				in(remove(widgets, name, metav1.DeletePropagationBackground), makeWidget(one)), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}, {"a"}}}, taken: true,
		},
		"parent replaced unobserved, with orphans": {
			given: acts{serve, parent(one)},
			acts: acts{{
				Name:    "delete the parent with --cascade=orphan, and create it again",
				Do:      in(remove(widgets, name, metav1.DeletePropagationOrphan), awaitGone(widgets, name), makeWidget(one)),
				Lagging: widgets.Resource, Until: one.reached,
			}},
			children: map[string]lives{"configmaps/web-0": {{"a", "a (no owner)", "a"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invariants := []perturbation.Invariant{
				{Name: "children pass through the requested states", Check: childrenPassThrough(test.children)},
			}
			if test.finalizer {
				invariants = append(invariants, perturbation.Invariant{Name: "the finalizer stays until the hook has finished", Check: hook.finalizerIsKept})
			}
			if !test.taken {
				invariants = append(invariants, perturbation.Invariant{Name: "no instance creates a child twice", CheckWrites: noChildIsCreatedTwice})
			}
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: test.given, Acts: test.acts, Flicker: test.flicker,
				Start:         startCompositeControllers,
				Resources:     []schema.GroupVersionResource{composites, widgets, configMaps, secrets},
				ClusterScoped: []schema.GroupVersionResource{composites},
				Invariants:    invariants,
			})
		})
	}
	for name, scenario := range environmentScenarios(hook) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario.Name, scenario.ClusterScoped = name, []schema.GroupVersionResource{composites, clusterWidgets, definitions}
			perturbation.Test(t, testcluster.Shared(t), scenario)
		})
	}
}

// startCompositeControllers runs one instance of the engine for the CompositeController of a namespace.
func startCompositeControllers(ctx context.Context, config *rest.Config, namespace string) error {
	return startEngine(ctx, config, namespace, func(client versioned.Interface, all informers.Interface, config engine.Config) (*engine.Controller, error) {
		return composite.New(ctx, client, all.CompositeControllers(), config)
	})
}
