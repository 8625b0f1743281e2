// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// item is one condition, with its position in the arguments.
type item struct {
	blueprint.Condition
	list  string
	index int
}

func (i item) String() string { return fmt.Sprintf("conditions.%s[%d]", i.list, i.index) }

// items returns the conditions in the order in which they are evaluated.
func items(conditions blueprint.Conditions) (all []item) {
	for n, condition := range conditions.AnyOf {
		all = append(all, item{condition, "anyOf", n})
	}
	for n, condition := range conditions.AllOf {
		all = append(all, item{condition, "allOf", n})
	}
	return all
}

// check checks the condition without its object.
func (i item) check(language blueprint.ConditionLanguage) error {
	reference := i.ObjectReference
	switch {
	case reference.Name == "" || reference.APIVersion == "" || reference.Resource == "":
		return phase.Failf("missing one or more required fields name/apiVersion/resource in objectReference of %s", i)
	case strings.TrimSpace(i.Condition.Condition) == "":
		return phase.Failf("%s has no condition", i)
	}
	if err := phase.CheckName("the name in the objectReference of "+i.String(), reference.Name); err != nil {
		return err
	}
	if err := phase.CheckOptionalNamespace("the namespace in the objectReference of "+i.String(), reference.Namespace); err != nil {
		return err
	}
	if err := language.Check(i.String(), i.Condition.Condition); err != nil {
		return phase.Failf("%v", err)
	}
	return nil
}

// secret reports whether the object is a Secret, which must not be shown.
func (i item) secret() bool {
	return i.ObjectReference.Group == "" && i.ObjectReference.Resource == "secrets"
}

func (i item) describe() string {
	reference := i.ObjectReference
	resource := reference.Resource
	if reference.Group != "" {
		resource += "." + reference.Group
	}
	if reference.Namespace != "" {
		return fmt.Sprintf("%s on %s %s/%s", i, resource, reference.Namespace, reference.Name)
	}
	return fmt.Sprintf("%s on %s %s", i, resource, reference.Name)
}

// evaluate evaluates the conditions with one Budget. They hold if one of anyOf holds, or all of allOf. If a condition cannot be evaluated, the
// rest is not evaluated either. If they do not hold, evaluate returns why, and what the phase waits for.
func (w *Wait) evaluate(ctx context.Context, budget *blueprint.Budget, conditions blueprint.Conditions) (met bool, why string, waiting phase.Waiting) {
	read := map[blueprint.ObjectReference]map[string]any{}
	var reasons []string
	for _, each := range items(conditions) {
		holds, reason := w.holds(ctx, budget, each, read)
		switch {
		case reason.failed:
			return false, reason.text, phase.Waiting{For: each.describe() + ", which cannot be evaluated", Details: reason.text}
		case holds && each.list == "anyOf":
			return true, "", phase.Waiting{}
		case !holds:
			reasons = append(reasons, reason.text)
			if each.list == "allOf" {
				return false, strings.Join(reasons, "; "), phase.Waiting{For: each.describe(), Details: reason.text}
			}
		}
	}
	return len(conditions.AllOf) > 0, strings.Join(reasons, "; "), phase.Waiting{For: "one of conditions.anyOf", Details: strings.Join(reasons, "; ")}
}

// unmet is why a condition does not hold: it is false, or its evaluation has failed.
type unmet struct {
	text   string
	failed bool
}

// holds evaluates one condition. The objects are kept in read, so that all conditions on one object use the same version of it.
func (w *Wait) holds(ctx context.Context, budget *blueprint.Budget, i item, read map[blueprint.ObjectReference]map[string]any) (bool, unmet) {
	object, known := read[i.ObjectReference]
	if !known {
		var err error
		if object, err = w.read(ctx, i.ObjectReference); err != nil {
			return false, unmet{fmt.Sprintf("%s: %v", i.describe(), err), true}
		}
		read[i.ObjectReference] = object
	}
	text, err := w.render(budget, i, object)
	text = strings.TrimSpace(text)
	switch {
	case err != nil && i.secret():
		return false, unmet{i.describe() + " cannot be evaluated; why is not shown, as it is about a Secret", true}
	case err != nil:
		return false, unmet{fmt.Sprintf("%s: %s", i.describe(), phase.Shorten(err.Error(), 5*phase.MaxShown)), true}
	case text == "true":
		return true, unmet{}
	case i.secret():
		return false, unmet{text: i.describe() + " does not hold"}
	default:
		return false, unmet{text: fmt.Sprintf("%s does not hold: it gives %q", i.describe(), phase.Shorten(text, phase.MaxShown))}
	}
}

// render evaluates a condition when it is the turn of the budget. Objects are read outside of turns.
func (w *Wait) render(budget *blueprint.Budget, i item, object map[string]any) (string, error) {
	done, err := budget.Turn()
	if err != nil {
		return "", err
	}
	defer done()
	return w.Language.Evaluate(budget, i.String(), i.Condition.Condition, object, time.Now())
}

func (w *Wait) read(ctx context.Context, reference blueprint.ObjectReference) (map[string]any, error) {
	t, err := targetOf(ctx, w.Mapper, reference, "")
	if err != nil {
		return nil, err
	}
	object, err := w.Client.Resource(t.resource()).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return object.Object, nil
}
