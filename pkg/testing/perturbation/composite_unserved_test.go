// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// The types of a run that are not served for a while. Where parents are not served, they have no children yet: the garbage collector mistakes
// owners of a new type that it cannot get for deleted ones.
const ownParents, ownChildren = "widgets", "parts"

// definedActs define the types of parents and children, and create a CompositeController and a parent without children.
func definedActs(hook *widgetHook) []perturbation.Act {
	serve := func(ctx context.Context, user *perturbation.User) error {
		spec, apiVersion := hook.compositeSpec(serving{finalize: true, generateSelector: true}), ownType(user, ownParents).GroupVersion().String()
		spec["parentResource"] = map[string]any{"apiVersion": apiVersion, "resource": ownParents}
		spec["childResources"] = append([]any{map[string]any{"apiVersion": apiVersion, "resource": ownChildren}}, owned...)
		return putController(composites, "CompositeController", spec)(ctx, user)
	}
	makeParent := func(ctx context.Context, user *perturbation.User) error {
		return put(ownType(user, ownParents), "Widget", name, nil, map[string]any{"spec": map[string]any{"value": "a"}})(ctx, user)
	}
	return []perturbation.Act{
		act("define the types", in(define("Widget", ownParents), define("Part", ownChildren)), always),
		act("create the CompositeController, with a finalize hook", serve, readyFor(metacontroller.ReasonServing)),
		act("create the parent", makeParent, ownEnd{end: end{finalizer: true}}.reached),
	}
}

// unservedActs let the API server not serve the parents, then the children.
func unservedActs() []perturbation.Act {
	withChildren := func(ctx context.Context, user *perturbation.User) error {
		part := map[string]any{"apiVersion": ownType(user, ownChildren).GroupVersion().String(), "kind": "Part", "metadata": map[string]any{"name": name + "-0"}}
		return editOwn(spec{"configMaps": 1, "others": []any{part}})(ctx, user)
	}
	one := ownEnd{end{value: "a", configMaps: 1, finalizer: true}, 1}
	edited := one
	edited.value = "b"
	return []perturbation.Act{
		act("do not serve parents", setServed(ownParents, false), readyFor(metacontroller.ReasonParentNotServed)),
		act("serve parents, and let the parent have children", in(setServed(ownParents, true), withChildren), one.reached),
		act("do not serve children, and edit the parent", in(setServed(ownChildren, false), editOwn(spec{"value": "b"})), readyFor(metacontroller.ReasonChildNotServed)),
		act("serve children", setServed(ownChildren, true), edited.reached),
	}
}

// deletedWhileUnservedActs delete the CompositeController while its parents are not served.
func deletedWhileUnservedActs() []perturbation.Act {
	return []perturbation.Act{
		act("do not serve parents, and delete the CompositeController", in(setServed(ownParents, false), removeController(composites)),
			readyFor(metacontroller.ReasonFinalizersRemain)),
		act("serve parents", setServed(ownParents, true), ownEnd{end: end{noController: true}}.reached),
	}
}

func editOwn(fields spec) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		return patch(ownType(user, ownParents), name, map[string]any{"spec": fields})(ctx, user)
	}
}

// ownEnd is an end with a parent of a type of the run, which has this number of Parts.
type ownEnd struct {
	end
	parts int
}

func (e ownEnd) reached(ctx context.Context, user *perturbation.User) (bool, error) {
	parent, err := user.Get(ctx, ownType(user, ownParents), name)
	if err != nil {
		return false, err
	}
	parts, err := user.List(ctx, ownType(user, ownChildren))
	if err != nil {
		return false, err
	}
	err = errors.Join(e.controllerIs(ctx, user), e.parentIs(parent), e.childrenAre(ctx, user, parent))
	if len(parts.Items) != e.parts {
		err = errors.Join(err, fmt.Errorf("got %d Parts, want %d", len(parts.Items), e.parts))
	}
	return err == nil, err
}

// onePartIsCreated checks that the engine creates one Part. No history has it.
func onePartIsCreated(_ []perturbation.Change, writes []perturbation.Write) error {
	created, unanswered := 0, 0
	for _, write := range writes {
		switch {
		case write.Verb != "create" || write.Resource != ownChildren:
		case write.Code == http.StatusCreated:
			created++
		case write.Code == 0:
			unanswered++
		}
	}
	if created > 1 || created+unanswered < 1 {
		return fmt.Errorf("got %d Parts created and %d creates without an answer, want 1 Part: %+v", created, unanswered, writes)
	}
	return nil
}
