// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// environmentScenarios are those in which what the engine needs goes away and comes back: rights, the namespace of children, the types of parents and
// children.
func environmentScenarios(hook *widgetHook) map[string]perturbation.Scenario {
	once := perturbation.Invariant{Name: "no instance creates a child twice", CheckWrites: noChildIsCreatedTwice}
	return map[string]perturbation.Scenario{
		"rights taken and given": {
			Given: restrictedActs(hook), Acts: rightsActs(), Start: startRestricted,
			Resources:  []schema.GroupVersionResource{composites, widgets, configMaps, secrets},
			Invariants: []perturbation.Invariant{once, childrenLive(map[string]lives{"configmaps/web-0": {{"a", "b"}}})},
		},
		"namespace made again": {
			Given: clusterActs(hook), Acts: namespaceActs(), Start: startInAllNamespaces,
			Resources: []schema.GroupVersionResource{composites, clusterWidgets, configMaps},
			// What is created in a namespace that is being deleted is refused, and created again.
			Invariants: []perturbation.Invariant{childrenLive(map[string]lives{"configmaps/web-0": {{"a"}, {"a"}}})},
		},
		"types not served for a while": {
			Given: definedActs(hook), Acts: unservedActs(), Start: startCompositeControllers,
			Resources: []schema.GroupVersionResource{composites, definitions, configMaps, secrets},
			Invariants: []perturbation.Invariant{
				once, childrenLive(map[string]lives{"configmaps/web-0": {{"a", "b"}}}), {Name: "one Part is created", CheckWrites: onePartIsCreated},
			},
		},
		"CompositeController deleted, parents not served": {
			Given: definedActs(hook), Acts: deletedWhileUnservedActs(), Start: startCompositeControllers,
			Resources: []schema.GroupVersionResource{composites, definitions, configMaps, secrets},
		},
	}
}

func childrenLive(children map[string]lives) perturbation.Invariant {
	return perturbation.Invariant{Name: "children pass through the requested states", Check: childrenPassThrough(children)}
}

// readyFor reports whether the condition Ready of the CompositeController has the reason.
func readyFor(reason string) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		err := end{finalizer: true, reason: reason}.controllerIs(ctx, user)
		return err == nil, err
	}
}

func always(context.Context, *perturbation.User) (bool, error) { return true, nil }

// Rights. The engine has them by Roles and RoleBindings in the namespace of the run.

const parentRights, childRights = "parents", "children"

// restrictedActs give the rights, and create the CompositeController and the parent.
func restrictedActs(hook *widgetHook) []perturbation.Act {
	one := end{value: "a", configMaps: 1, finalizer: true}
	return []perturbation.Act{
		act("give all rights", in(
			makeRole(parentRights, widgets.Group, "widgets", "widgets/status", "widgets/finalizers"), makeRole(childRights, "", "configmaps", "secrets"),
			give(parentRights, widgets), give(childRights, configMaps),
		), always),
		act("create the CompositeController, with a finalize hook", hook.serve(serving{finalize: true}), end{noParent: true, finalizer: true}.reached),
		act("create the parent", makeWidget(one), one.reached),
	}
}

// rightsActs take each right away, and give it back.
func rightsActs() []perturbation.Act {
	one := end{value: "a", configMaps: 1, finalizer: true}
	refused, edited, gone := one, one, one
	refused.reason, refused.waits = metacontroller.ReasonForbidden, true
	edited.value, gone.value = "b", "b"
	gone.finalizer, gone.noController = false, true
	remaining := edited
	remaining.reason = metacontroller.ReasonForbidden
	return []perturbation.Act{
		act("take the right to children, and edit the parent", in(take(childRights, configMaps), editWidget(spec{"value": "b"})), refused.reached),
		act("give the right to children", give(childRights, configMaps), edited.reached),
		act("take the right to parents, and delete the CompositeController", in(take(parentRights, widgets), removeController(composites)), remaining.reached),
		act("give the right to parents", give(parentRights, widgets), gone.reached),
	}
}

// startRestricted runs one instance as a user that has no other rights than those of the run and of the group.
func startRestricted(ctx context.Context, config *rest.Config, namespace string) error {
	return startCompositeControllers(ctx, restrictedConfig(config, namespace), namespace)
}

func restrictedConfig(config *rest.Config, namespace string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: restrictedUser(namespace), Groups: []string{restrictedGroup}}
	return config
}

// A namespace.

var clusterWidgets = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "clusterwidgets"}

// startInAllNamespaces runs one instance of the engine for the CompositeController of a run, with parents that have no namespace.
func startInAllNamespaces(ctx context.Context, config *rest.Config, namespace string) error {
	return startEngine(ctx, config, namespace, func(client versioned.Interface, all informers.Interface, config engine.Config) (*engine.Controller, error) {
		config.Namespace = ""
		return composite.New(ctx, client, all.CompositeControllers(), config)
	})
}

// clusterActs create a CompositeController and a parent without a namespace, whose child is in the namespace of the run.
func clusterActs(hook *widgetHook) []perturbation.Act {
	serve := func(ctx context.Context, user *perturbation.User) error {
		spec := hook.compositeSpec(serving{generateSelector: true})
		spec["parentResource"] = map[string]any{
			"apiVersion": clusterWidgets.GroupVersion().String(), "resource": clusterWidgets.Resource,
			"labelSelector": map[string]any{"matchLabels": map[string]any{perturbation.RunLabel: user.Namespace}},
		}
		return putController(composites, "CompositeController", spec)(ctx, user)
	}
	makeParent := func(ctx context.Context, user *perturbation.User) error {
		child := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name + "-0", "namespace": user.Namespace}, "data": map[string]any{"value": "a"},
		}
		return put(clusterWidgets, "ClusterWidget", user.RunName(), map[string]any{"labels": map[string]any{perturbation.RunLabel: user.Namespace}},
			map[string]any{"spec": map[string]any{"others": []any{child}}})(ctx, user)
	}
	return []perturbation.Act{
		act("create the CompositeController", serve, func(ctx context.Context, user *perturbation.User) (bool, error) {
			err := end{}.controllerIs(ctx, user)
			return err == nil, err
		}),
		act("create the parent", makeParent, clusterEnd{end{value: "a", configMaps: 1}}.reached),
	}
}

// namespaceActs delete the namespace of the run, which another object holds for a while, and make it again.
func namespaceActs() []perturbation.Act {
	const holds = "holds"
	hold := put(configMaps, "ConfigMap", holds, map[string]any{"finalizers": []any{"example.com/holds"}}, nil)
	removeNamespace := func(ctx context.Context, user *perturbation.User) error {
		return user.Client.Resource(namespaces).Delete(ctx, user.Namespace, metav1.DeleteOptions{})
	}
	makeAgain := func(ctx context.Context, user *perturbation.User) error {
		err := eventually(ctx, func() error {
			_, err := user.Client.Resource(namespaces).Get(ctx, user.Namespace, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("the namespace exists: %w", err)
		})
		if err != nil {
			return err
		}
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		made.SetName(user.Namespace)
		_, err = user.Client.Resource(namespaces).Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	return []perturbation.Act{
		act("delete the namespace", in(hold, removeNamespace), clusterEnd{end{}}.reachedIn(true)),
		act("make the namespace again", in(patch(configMaps, holds, map[string]any{"metadata": map[string]any{"finalizers": nil}}), makeAgain),
			clusterEnd{end{value: "a", configMaps: 1}}.reached),
	}
}

// clusterEnd is an end with a parent that has no namespace.
type clusterEnd struct{ end }

func (e clusterEnd) reached(ctx context.Context, user *perturbation.User) (bool, error) {
	return e.reachedIn(false)(ctx, user)
}

// reachedIn is reached while the namespace is being deleted or not.
func (e clusterEnd) reachedIn(deleted bool) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		parent, err := user.Get(ctx, clusterWidgets, user.RunName())
		if err != nil {
			return false, err
		}
		err = errors.Join(e.parentIs(parent), e.childrenAre(ctx, user, parent))
		if !deleted {
			err = errors.Join(err, e.controllerIs(ctx, user))
		}
		return err == nil, err
	}
}
