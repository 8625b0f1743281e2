// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/controller/decorator"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

func TestDecoratorController(t *testing.T) {
	hook := startWidgetHook(t)
	type acts = []perturbation.Act
	serve := func(with serving) perturbation.Act {
		return act(fmt.Sprintf("create the DecoratorController, %+v", with), hook.decorate(with), end{decorator: true, noParent: true, finalizer: with.finalize}.reached)
	}
	target := func(e end, related ...any) perturbation.Act {
		return act("create the target", makeWidget(e, related...), e.reached)
	}
	var (
		finalize   = serving{finalize: true}
		one        = end{decorator: true, value: "a", configMaps: 1}
		both       = end{decorator: true, value: "a", configMaps: 1, secrets: 1}
		finalizing = func(e end) end { e.finalizer = true; return e }
		plain      = end{decorator: true, finalizer: true, letGo: true}
		noTarget   = end{decorator: true, noParent: true}
	)
	tests := map[string]struct {
		given, acts acts
		// children has the lives of the attachments by name, and target the states of the target, in the format of decorationOf. No state may be
		// missing or come twice: that would be a write that nothing has asked for. target is nil if its states differ between runs.
		children map[string]lives
		target   []string
		// finalizer is true if targets have a finalizer, which is not removed before the hook has finished.
		finalizer bool
		// taken is true if another object has an attachment's name: then the create is repeated.
		taken bool
		// invalid is true if nothing is served at times: then no watch starts again after a flicker.
		invalid bool
	}{
		"decorate from nothing": {
			acts: acts{serve(finalize), target(finalizing(both))}, finalizer: true,
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "secrets/web-0": {{"a"}}},
			target:   []string{"//", "a/a/", "a/a/a"},
		},
		"update, recreate, create and delete": {
			given: acts{serve(serving{}), target(end{decorator: true, value: "a", configMaps: 2, secrets: 1})},
			acts: acts{act("edit", editWidget(spec{"value": "b", "configMaps": 1, "secrets": 2}),
				end{decorator: true, value: "b", configMaps: 1, secrets: 2}.reached)},
			children: map[string]lives{
				"configmaps/web-0": {{"a", "b"}}, "configmaps/web-1": {{"a"}}, "secrets/web-0": {{"a"}, {"b"}}, "secrets/web-1": {{"b"}},
			},
			target: []string{"//", "a/a/", "a/a/a", "b/b/a", "b/b/b"},
		},
		"another client changes all": {
			given: acts{serve(serving{}), target(both)},
			acts: acts{
				act("it removes the label, and edits one attachment", in(setLabel(widgets, name, decoration, nil),
					patch(configMaps, "web-0", map[string]any{"data": map[string]any{"value": "drift"}})), both.reached),
				act("it deletes the other attachment", remove(secrets, "web-0", metav1.DeletePropagationBackground), both.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a", "drift", "a"}}, "secrets/web-0": {{"a"}, {"a"}}},
			target:   []string{"//", "a/a/", "a/a/a", "/a/a", "a/a/a"},
		},
		"opt out and in, with a finalize hook": {
			given: acts{serve(finalize), target(finalizing(one))}, finalizer: true,
			acts: acts{
				act("opt out by annotation", serveAnnotation(nil), plain.reached),
				act("opt in", serveAnnotation("true"), finalizing(one).reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a"}, {"a"}}},
			target:   []string{"//", "a/a/", "a/a/a", "//a", "//", "a/a/", "a/a/a"},
		},
		"opt out and in, without a finalize hook": {
			given: acts{serve(serving{}), target(one)},
			acts: acts{
				act("opt out by label, and edit", in(setLabel(widgets, name, servedLabel, nil), editWidget(spec{"value": "b"})), one.reached),
				act("opt in", setLabel(widgets, name, servedLabel, "true"), end{decorator: true, value: "b", configMaps: 1}.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}},
			target:   []string{"//", "a/a/", "a/a/a", "b/b/a", "b/b/b"},
		},
		"finalize": {
			given: acts{serve(finalize), target(finalizing(both))}, finalizer: true,
			acts:     acts{act("delete the target", remove(widgets, name, metav1.DeletePropagationBackground), finalizing(noTarget).reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}, "secrets/web-0": {{"a"}}},
			// What is desired of the target is not written to one that is gone soon, as after a crash when only the finalizer is left.
		},
		"finalize switched off": {
			given:    acts{serve(finalize), target(finalizing(one))},
			acts:     acts{act("no finalize hook", patch(decorators, "", map[string]any{"spec": spec{"hooks": spec{"finalize": nil}}}), one.reached)},
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
			target:   []string{"//", "a/a/", "a/a/a"},
		},
		"DecoratorController deleted": {
			given: acts{serve(finalize), target(finalizing(one))},
			acts: acts{
				act("delete the DecoratorController", removeController(decorators), end{decorator: true, value: "a", configMaps: 1, noController: true}.reached),
				act("delete the target", remove(widgets, name, metav1.DeletePropagationBackground), end{decorator: true, noParent: true, noController: true}.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a"}}},
			target:   []string{"//", "a/a/", "a/a/a"},
		},
		"target replaced unobserved, with orphans": {
			given: acts{serve(serving{}), target(one)},
			acts: acts{
				{
					Name:    "delete the target with --cascade=orphan, and create it again",
					Do:      in(remove(widgets, name, metav1.DeletePropagationOrphan), awaitGone(widgets, name), makeWidget(one)),
					Lagging: widgets.Resource,
					Until:   end{decorator: true, value: "a", others: []string{"configmaps/web-0 a (no owner)"}}.reached,
				},
				act("delete the orphan, which is not adopted", remove(configMaps, "web-0", metav1.DeletePropagationBackground), one.reached),
			},
			children: map[string]lives{"configmaps/web-0": {{"a", "a (no owner)"}, {"a"}}}, taken: true,
		},
		"invalid for a while": {
			given: acts{serve(finalize), target(finalizing(one)), foreign(finalizing(one))}, finalizer: true, invalid: true,
			acts:     invalidActs(decorators, finalizing(one), hook.decoratorForms(finalize)),
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}, foreignChild: {{foreignState}}},
		},
		"DecoratorController deleted while it is invalid": {
			given: acts{serve(finalize), target(finalizing(one)), foreign(finalizing(one))}, invalid: true,
			acts:     deletedWhileInvalidActs(decorators, finalizing(one), spec{"resources": []any{}, "hooks": nil}),
			children: map[string]lives{"configmaps/web-0": {{"a"}}, foreignChild: {{foreignState}}},
			target:   []string{"//", "a/a/", "a/a/a"},
		},
		"related objects": {
			given:    acts{serve(serving{customize: true}), target(one, named(related))},
			acts:     relatedActs(one),
			children: map[string]lives{"configmaps/web-0": {{"a", "a-x", "a-y", "a"}}},
			target: []string{"//", "a/a/", "a/a/a", "a-x/a-x/a", "a-x/a-x/a-x", "a-y/a-y/a-x", "a-y/a-y/a-y",
				"a/a/a-y", "a/a/a"},
		},
		"other rules": {
			given: acts{serve(serving{customize: true, finalize: true}), target(finalizing(one), named(related)), relatedAct(finalizing(one))}, finalizer: true,
			acts:     ruleActs(finalizing(one)),
			children: map[string]lives{"configmaps/web-0": {{"a", "a-x", "a", "a-x", "a"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invariants := []perturbation.Invariant{
				{Name: "attachments pass through the requested states", Check: childrenPassThrough(test.children)},
			}
			if test.target != nil {
				invariants = append(invariants, perturbation.Invariant{Name: "the target passes through the requested states", Check: targetPassesThrough(test.target)})
			}
			if test.finalizer {
				invariants = append(invariants, perturbation.Invariant{Name: "the finalizer stays until the hook has finished", Check: hook.finalizerIsKept})
			}
			if !test.taken {
				invariants = append(invariants, perturbation.Invariant{Name: "no instance creates an attachment twice", CheckWrites: noChildIsCreatedTwice})
			}
			flicker := flickerValue
			if test.invalid {
				flicker = nil
			}
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: test.given, Acts: test.acts, Flicker: flicker,
				Start:         startDecoratorControllers,
				Resources:     []schema.GroupVersionResource{decorators, widgets, configMaps, secrets},
				ClusterScoped: []schema.GroupVersionResource{decorators},
				Invariants:    invariants,
			})
		})
	}
}

// startDecoratorControllers runs one instance of the engine for the DecoratorController of a namespace.
func startDecoratorControllers(ctx context.Context, config *rest.Config, namespace string) error {
	return startEngine(ctx, config, namespace, func(client versioned.Interface, all informers.Interface, config engine.Config) (*engine.Controller, error) {
		return decorator.New(ctx, client, all.DecoratorControllers(), config)
	})
}
