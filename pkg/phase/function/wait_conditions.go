// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// target returns the object, as far as it is known without discovery.
func (i item) target() target {
	reference := i.ObjectReference
	return target{
		Group: reference.Group, APIVersion: reference.APIVersion, Resource: reference.Resource,
		Namespace: cmp.Or(reference.Namespace, defaultNamespace), Name: reference.Name,
	}
}

// secret reports whether the object is a Secret, which must not be shown.
func (i item) secret() bool { return i.target().secret() }

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

// evaluation is one evaluation of the conditions of a phase.
type evaluation struct {
	budget    *blueprint.Budget
	evaluator blueprint.Evaluator
	objects   waitObjects
	// conditions is the number of those that were evaluated.
	conditions int
}

// newEvaluation returns an evaluation for an ActionSet in the namespace. Its objects have to be ended.
func (w *Wait) newEvaluation(ctx context.Context, namespace string) *evaluation {
	budget := blueprint.NewBudget(ctx)
	return &evaluation{
		budget: budget, evaluator: w.Language.Evaluator(budget, time.Now),
		objects: waitObjects{client: w.Client, mapper: w.Mapper, reach: w.reach, namespace: namespace, expensive: &w.pace.expensive},
	}
}

// cost returns about how much of a CPU the evaluation has taken, in Budgets, besides what it has read.
func (e *evaluation) cost() float64 {
	return e.budget.Spent() + float64(e.conditions)/conditionsOfBudget
}

// evaluate evaluates the conditions with one Budget. They hold if one of anyOf holds, or all of allOf. If a condition cannot be evaluated, the
// rest is not evaluated either. If they do not hold, evaluate returns why, and what the phase waits for.
func (e *evaluation) evaluate(ctx context.Context, conditions blueprint.Conditions) (met bool, why string, waiting phase.Waiting) {
	var reasons unmetReasons
	for _, each := range items(conditions) {
		holds, reason := e.holds(ctx, each)
		switch {
		case reason.failed:
			return false, reason.text, phase.Waiting{For: each.describe() + ", which cannot be evaluated", Details: reason.text}
		case holds && each.list == "anyOf":
			return true, "", phase.Waiting{}
		case !holds:
			if each.list == "allOf" {
				return false, strings.Join(append(reasons.texts(), reason.text), "; "), phase.Waiting{For: each.describe(), Details: reason.text}
			}
			reasons.add(reason.text)
		}
	}
	why = strings.Join(reasons.texts(), "; ")
	return len(conditions.AllOf) > 0, why, phase.Waiting{For: "one of conditions.anyOf", Details: why}
}

// unmet is why a condition does not hold: it is false, or its evaluation has failed.
type unmet struct {
	text   string
	failed bool
}

// maxReasons is the maximum number of conditions of anyOf of which a message names why they do not hold.
const maxReasons = 10

// unmetReasons are why conditions of anyOf do not hold.
type unmetReasons struct {
	first []string
	more  int
}

func (r *unmetReasons) add(text string) {
	if len(r.first) == maxReasons {
		r.more++
		return
	}
	r.first = append(r.first, text)
}

func (r *unmetReasons) texts() []string {
	if r.more == 0 {
		return r.first
	}
	return append(slices.Clone(r.first), fmt.Sprintf("and %d more", r.more))
}

// holds evaluates one condition.
func (e *evaluation) holds(ctx context.Context, i item) (bool, unmet) {
	e.conditions++
	t, object, err := e.objects.get(ctx, i.ObjectReference)
	if err != nil {
		return false, unmet{fmt.Sprintf("%s: %v", i.describe(), err), true}
	}
	text, err := e.render(i, t, object)
	text = strings.TrimSpace(text)
	switch {
	case err != nil && i.secret() && !errors.Is(err, errObjectsTooLarge):
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

// render evaluates a condition when it is the turn of the budget: one on small objects does not wait for that. Objects are read outside of turns.
func (e *evaluation) render(i item, t target, object map[string]any) (string, error) {
	done, err := e.budget.Turn(e.objects.endPlace == nil)
	if err != nil {
		return "", err
	}
	defer done()
	if err := e.objects.keep(e.budget, t, object); err != nil {
		return "", err
	}
	return e.evaluator.Evaluate(i.String(), i.Condition.Condition, object)
}
