// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// Kind is the kind of a Declaration.
type Kind string

// The kinds of Declarations.
const (
	Composite Kind = "CompositeController"
	Decorator Kind = "DecoratorController"
)

// Declaration is a CompositeController or a DecoratorController, in the form that is common to both. The targets of a DecoratorController are
// parents here, and its attachments children. It shares what it is made of, and is never changed.
type Declaration struct {
	Kind Kind
	*metav1.ObjectMeta
	// Object is what the declaration is made of.
	Object runtime.Object

	Parents  []ParentRule
	Children []ChildRule
	// Hooks is nil if there are none.
	Hooks               *Hooks
	Endpoints           []v1alpha1.EndpointConfig
	ResyncPeriodSeconds *int32
	// GenerateSelector finds children by a label that the engine sets.
	GenerateSelector bool
	// AdoptAny adopts also what a selector matches that demands no value of a label.
	AdoptAny bool
	// ApplyStrategy is how children are written; "" for the strategy of the process.
	ApplyStrategy v1alpha1.ApplyStrategy
	Status        Status
}

// ParentRule is a rule for which objects are parents.
type ParentRule struct {
	// Field of the object's spec that has the rule.
	Field string
	v1alpha1.ResourceRule
	LabelSelector       *metav1.LabelSelector
	AnnotationSelector  *v1alpha1.AnnotationSelector
	IgnoreStatusChanges bool
	// RevisionFields are the paths of the fields whose changes make a new revision.
	RevisionFields []string
}

// ChildRule is a type of children.
type ChildRule struct {
	// Field of the object's spec that has the rule.
	Field string
	v1alpha1.ResourceRule
	Method v1alpha1.ChildUpdateMethod
	// StatusChecks must hold for a child that was moved in a rolling update before the next one is moved.
	StatusChecks []v1alpha1.StatusConditionCheck
}

// Hooks are the hooks of a Declaration, nil where there is none.
type Hooks struct{ Sync, Finalize, Customize *v1alpha1.Hook }

// Status is the status of a Declaration.
type Status struct {
	ObservedGeneration int64
	// Parents and Children are the types of both, for columns of kubectl.
	Parents, Children string
	// Finalized are the types of parents that may have our finalizer.
	Finalized  []v1alpha1.ResourceRule
	Conditions []metav1.Condition
}

// FromComposite returns the Declaration of a CompositeController.
func FromComposite(cc *v1alpha1.CompositeController) *Declaration {
	spec := &cc.Spec
	d := &Declaration{
		Kind:       Composite,
		ObjectMeta: &cc.ObjectMeta,
		Object:     cc,
		Parents: []ParentRule{{
			Field:               "spec.parentResource",
			ResourceRule:        spec.ParentResource.ResourceRule,
			LabelSelector:       spec.ParentResource.LabelSelector,
			IgnoreStatusChanges: isTrue(spec.ParentResource.IgnoreStatusChanges),
		}},
		Endpoints:           spec.EndpointConfigs,
		ResyncPeriodSeconds: spec.ResyncPeriodSeconds,
		GenerateSelector:    isTrue(spec.GenerateSelector),
		AdoptAny:            spec.Adoption == v1alpha1.AdoptAny,
		ApplyStrategy:       spec.ApplyStrategy,
		Status: Status{
			ObservedGeneration: cc.Status.ObservedGeneration,
			Children:           cc.Status.Children,
			Finalized:          cc.Status.FinalizedParents,
			Conditions:         cc.Status.Conditions,
		},
	}
	if hooks := spec.Hooks; hooks != nil {
		d.Hooks = &Hooks{hooks.Sync, hooks.Finalize, hooks.Customize}
	}
	for i, child := range spec.ChildResources {
		rule := ChildRule{Field: fmt.Sprintf("spec.childResources[%d]", i), ResourceRule: child.ResourceRule}
		if child.UpdateStrategy != nil {
			rule.Method, rule.StatusChecks = child.UpdateStrategy.Method, child.UpdateStrategy.StatusChecks.Conditions
		}
		d.Children = append(d.Children, rule)
	}
	if history := spec.ParentResource.RevisionHistory; history != nil {
		d.Parents[0].RevisionFields = history.FieldPaths
	}
	return d
}

// FromDecorator returns the Declaration of a DecoratorController.
func FromDecorator(dc *v1alpha1.DecoratorController) *Declaration {
	spec := &dc.Spec
	d := &Declaration{
		Kind:                Decorator,
		ObjectMeta:          &dc.ObjectMeta,
		Object:              dc,
		Endpoints:           spec.EndpointConfigs,
		ResyncPeriodSeconds: spec.ResyncPeriodSeconds,
		ApplyStrategy:       spec.ApplyStrategy,
		Status: Status{
			ObservedGeneration: dc.Status.ObservedGeneration,
			Parents:            dc.Status.Resources,
			Children:           dc.Status.Attachments,
			Finalized:          dc.Status.FinalizedResources,
			Conditions:         dc.Status.Conditions,
		},
	}
	if hooks := spec.Hooks; hooks != nil {
		d.Hooks = &Hooks{hooks.Sync, hooks.Finalize, hooks.Customize}
	}
	for i, target := range spec.Resources {
		d.Parents = append(d.Parents, ParentRule{
			Field:               fmt.Sprintf("spec.resources[%d]", i),
			ResourceRule:        target.ResourceRule,
			LabelSelector:       target.LabelSelector,
			AnnotationSelector:  target.AnnotationSelector,
			IgnoreStatusChanges: isTrue(target.IgnoreStatusChanges),
		})
	}
	for i, attachment := range spec.Attachments {
		rule := ChildRule{Field: fmt.Sprintf("spec.attachments[%d]", i), ResourceRule: attachment.ResourceRule}
		if attachment.UpdateStrategy != nil {
			rule.Method = attachment.UpdateStrategy.Method
		}
		d.Children = append(d.Children, rule)
	}
	return d
}

// SetOn sets the status of a CompositeController or a DecoratorController.
func (s Status) SetOn(object runtime.Object) {
	switch o := object.(type) {
	case *v1alpha1.CompositeController:
		o.Status = v1alpha1.CompositeControllerStatus{
			ObservedGeneration: s.ObservedGeneration, Children: s.Children, FinalizedParents: s.Finalized, Conditions: s.Conditions,
		}
	case *v1alpha1.DecoratorController:
		o.Status = v1alpha1.DecoratorControllerStatus{
			ObservedGeneration: s.ObservedGeneration, Resources: s.Parents, Attachments: s.Children, FinalizedResources: s.Finalized, Conditions: s.Conditions,
		}
	}
}

// Finalizes reports whether parents get our finalizer.
func (d *Declaration) Finalizes() bool { return d.Hooks != nil && enabled(d.Hooks.Finalize) }

// enabled reports whether a hook is configured. A hook without a webhook is not.
func enabled(hook *v1alpha1.Hook) bool { return hook != nil && hook.Webhook != nil }

func isTrue(b *bool) bool { return b != nil && *b }
