// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/rollout"
)

// maxFinalizerName is the maximum length of a finalizer after its slash.
const maxFinalizerName = 63

// Spec is the compiled spec of a Declaration.
type Spec struct {
	kind Kind
	// name of the Declaration.
	name string
	// finalizer that parents get.
	finalizer        string
	parents          []*parentType
	generateSelector bool
	// adoptAny is whether orphans are adopted also by a selector that demands no value of a label.
	adoptAny bool
	// sync, finalize and customize report which hooks there are.
	sync, finalize, customize bool
	// children are sorted by group, version and kind.
	children []childType
	// rolls reports whether children of a type are moved to a revision of their parent one after the other, and fields are those of the parent that make
	// a revision.
	rolls  bool
	fields rollout.Fields
	// serverSide reports whether children are written by server-side apply.
	serverSide bool
}

// parentType is a type of parents. An object of the type is a parent if one of the rules selects it.
type parentType struct {
	Resource
	rules               []selection
	ignoreStatusChanges bool
}

// selection selects parents. Both selectors must match; a nil one matches all.
type selection struct{ labels, annotations labels.Selector }

// childType is a type of children.
type childType struct {
	Resource
	// method is what is done with a child that differs, and rolls reports whether it is done with one child after the other.
	method v1alpha1.ChildUpdateMethod
	rolls  bool
	// checks must hold for a child of the latest revision before the next one is moved.
	checks []v1alpha1.StatusConditionCheck
}

// rollsInPlace reports whether a rolling update waits for the update of a child. A child that is created again is judged by a trial.
func (t *childType) rollsInPlace() bool { return t.rolls && t.method == v1alpha1.ChildUpdateInPlace }

// Problem is a reason and a message of the condition Ready of a Declaration.
type Problem struct{ Reason, Message string }

func invalid(format string, args ...any) *Problem {
	return &Problem{v1alpha1.ReasonInvalidSpec, fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *Problem {
	return &Problem{v1alpha1.ReasonNotYetSupported, fmt.Sprintf(format, args...)}
}

// CheckSpec validates a Declaration without looking at the API server. It returns nil for a valid one.
func (d *Declaration) CheckSpec() *Problem {
	switch {
	case d.Hooks == nil:
		return invalid("spec.hooks: no hooks defined: give sync, finalize or both")
	case !enabled(d.Hooks.Sync) && !enabled(d.Hooks.Finalize):
		return invalid("spec.hooks: neither sync nor finalize has a webhook")
	case len(d.Parents) == 0:
		return invalid("spec.resources: the list is empty: give at least one type of targets")
	}
	if problem := d.checkParents(); problem != nil {
		return problem
	}
	if !slices.Contains(ApplyStrategies, d.ApplyStrategy) && d.ApplyStrategy != "" {
		return invalid("spec.applyStrategy: invalid strategy %q: must be one of %q", d.ApplyStrategy, ApplyStrategies)
	}
	return d.checkChildren()
}

// ApplyStrategies are the strategies by which children are written.
var ApplyStrategies = []v1alpha1.ApplyStrategy{v1alpha1.ApplyDynamic, v1alpha1.ApplyServerSide}

func (d *Declaration) checkParents() *Problem {
	versions := map[schema.GroupResource]string{}
	for _, rule := range d.Parents {
		of, err := ResourceOf(rule.ResourceRule)
		if err != nil {
			return invalid("%s: %v", rule.Field, err)
		}
		if _, err := rule.labelSelector(); err != nil {
			return invalid("%s.labelSelector: %v", rule.Field, err)
		}
		if _, err := rule.annotationSelector(); err != nil {
			return invalid("%s.annotationSelector: %v", rule.Field, err)
		}
		if _, err := rollout.ParseFields(rule.RevisionFields); err != nil {
			return invalid("%s.revisionHistory.fieldPaths: %v", rule.Field, err)
		}
		if other, found := versions[of.GroupResource()]; found && other != of.Version {
			return invalid("%s: %s is already listed in version %s: give all rules for one type the same version", rule.Field, of.GroupResource(), other)
		}
		versions[of.GroupResource()] = of.Version
	}
	return nil
}

func (d *Declaration) checkChildren() *Problem {
	versions := map[schema.GroupResource]string{}
	for _, rule := range d.Children {
		of, err := ResourceOf(rule.ResourceRule)
		if err != nil {
			return invalid("%s: %v", rule.Field, err)
		}
		if other, found := versions[of.GroupResource()]; found && other != of.Version {
			return invalid("%s: %s is already listed in version %s: one object would be two children", rule.Field, of.GroupResource(), other)
		}
		versions[of.GroupResource()] = of.Version
		if of.GroupResource() == controllerRevisions.GroupResource() && d.rolls() {
			return invalid("%s: %s are the records of rolling updates, and cannot be children: use no Rolling method, or remove them", rule.Field, of.GroupResource())
		}
		method := rule.method()
		switch {
		case slices.Contains(d.Kind.methods(), method):
		case slices.Contains(Composite.methods(), method):
			return invalid("%s.updateStrategy.method: a DecoratorController does not roll its attachments: use %s instead of %s", rule.Field, unrolled(method), method)
		default:
			return invalid("%s.updateStrategy.method: invalid method %q: must be one of %q", rule.Field, method, d.Kind.methods())
		}
	}
	return nil
}

// methods returns the update methods of the children of a kind.
func (k Kind) methods() []v1alpha1.ChildUpdateMethod {
	methods := []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateOnDelete, v1alpha1.ChildUpdateRecreate, v1alpha1.ChildUpdateInPlace}
	if k == Composite {
		methods = append(methods, v1alpha1.ChildUpdateRollingRecreate, v1alpha1.ChildUpdateRollingInPlace)
	}
	return methods
}

// rolls reports whether children of a type are moved to a revision of their parent one after the other.
func (d *Declaration) rolls() bool {
	return slices.ContainsFunc(d.Children, func(rule ChildRule) bool { return isRolling(rule.method()) })
}

// isRolling reports whether a method changes one child after the other.
func isRolling(method v1alpha1.ChildUpdateMethod) bool { return method != unrolled(method) }

// unrolled returns the method that changes all children concurrently.
func unrolled(method v1alpha1.ChildUpdateMethod) v1alpha1.ChildUpdateMethod {
	return v1alpha1.ChildUpdateMethod(strings.TrimPrefix(string(method), "Rolling"))
}

// Compile compiles a Declaration for an API server that serves these of its resources.
func Compile(d *Declaration, served map[schema.GroupVersionResource]Resource) (*Spec, *Problem) {
	if problem := d.CheckSpec(); problem != nil {
		return nil, problem
	}
	spec := &Spec{
		kind:             d.Kind,
		name:             d.Name,
		finalizer:        d.Kind.finalizer(d.Name),
		generateSelector: d.GenerateSelector,
		adoptAny:         d.AdoptAny,
		sync:             enabled(d.Hooks.Sync),
		finalize:         enabled(d.Hooks.Finalize),
		customize:        enabled(d.Hooks.Customize),
		serverSide:       d.ApplyStrategy == v1alpha1.ApplyServerSide,
	}
	if _, name, _ := strings.Cut(spec.finalizer, "/"); spec.finalize && len(name) > maxFinalizerName {
		return nil, invalid("metadata.name: with a finalize hook it may have %d characters at most, for %s get the finalizer %s",
			len(d.Name)-len(name)+maxFinalizerName, d.Kind.Parents(), spec.finalizer)
	}
	if problem := spec.compileParents(d, served); problem != nil {
		return nil, problem
	}
	if problem := spec.compileChildren(d, served); problem != nil {
		return nil, problem
	}
	return spec, nil
}

func (spec *Spec) compileParents(d *Declaration, served map[schema.GroupVersionResource]Resource) *Problem {
	for _, rule := range d.Parents {
		wanted, _ := ResourceOf(rule.ResourceRule)
		of, found := served[wanted]
		if !found {
			return notServed(d.Kind.parentNotServed(), wanted, rule.Field)
		}
		if !of.Status && d.Kind == Composite {
			return &Problem{v1alpha1.ReasonStatusSubresourceMissing, fmt.Sprintf("%s in version %s does not have subresource 'Status' enabled: add subresources.status to its CustomResourceDefinition", of.GroupResource(), of.Version)}
		}
		t := spec.typeOf(of.GroupResource())
		if t == nil {
			t = &parentType{Resource: of, ignoreStatusChanges: true}
			spec.parents = append(spec.parents, t)
		}
		byLabels, _ := rule.labelSelector()
		byAnnotations, _ := rule.annotationSelector()
		t.rules = append(t.rules, selection{byLabels, byAnnotations})
		t.ignoreStatusChanges = t.ignoreStatusChanges && rule.IgnoreStatusChanges
		spec.fields, _ = rollout.ParseFields(rule.RevisionFields)
	}
	return nil
}

func (spec *Spec) compileChildren(d *Declaration, served map[schema.GroupVersionResource]Resource) *Problem {
	for _, rule := range d.Children {
		wanted, _ := ResourceOf(rule.ResourceRule)
		of, found := served[wanted]
		if !found {
			return notServed(d.Kind.childNotServed(), wanted, rule.Field)
		}
		if !of.Namespaced && !slices.ContainsFunc(spec.parents, func(t *parentType) bool { return !t.Namespaced }) {
			return invalid("%s: %s are cluster-scoped, and a namespaced %s cannot own them", rule.Field, of.GroupResource(), d.Kind.parent())
		}
		// The last of two rules for one type wins.
		spec.children = slices.DeleteFunc(spec.children, func(t childType) bool { return t.Resource == of })
		method := rule.method()
		if isRolling(method) && !spec.parents[0].Namespaced {
			return invalid("%s.updateStrategy.method: %s are cluster-scoped, and the ControllerRevisions of a rolling update are not: use %s instead of %s",
				rule.Field, spec.parents[0].GroupResource(), unrolled(method), method)
		}
		spec.children = append(spec.children, childType{of, unrolled(method), isRolling(method), rule.StatusChecks})
	}
	spec.rolls = slices.ContainsFunc(spec.children, func(t childType) bool { return t.rolls })
	slices.SortFunc(spec.children, func(a, b childType) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return nil
}

func notServed(reason string, of schema.GroupVersionResource, field string) *Problem {
	return &Problem{reason, fmt.Sprintf("the API server does not serve %s in version %s: install its CustomResourceDefinition, or correct %s", of.GroupResource(), of.Version, field)}
}

// typeOf returns a type of parents, nil if it is none.
func (spec *Spec) typeOf(of schema.GroupResource) *parentType {
	for _, t := range spec.parents {
		if t.GroupResource() == of {
			return t
		}
	}
	return nil
}

// SameResources reports whether two Specs compiled from the same Declaration have the same resources.
func (spec *Spec) SameResources(other *Spec) bool {
	sameParents := func(a, b *parentType) bool { return a.Resource == b.Resource }
	sameChildren := func(a, b childType) bool { return a.Resource == b.Resource }
	return slices.EqualFunc(spec.parents, other.parents, sameParents) && slices.EqualFunc(spec.children, other.children, sameChildren)
}

// CheckNamespace returns the problem of an engine that works in one namespace, "" for all, where parents are cluster-scoped.
func (spec *Spec) CheckNamespace(namespace string) *Problem {
	for _, t := range spec.parents {
		if namespace != "" && !t.Namespaced {
			return unsupported("%s: %s are cluster-scoped, and this engine works in the namespace %s only", spec.kind.parentField(), t.GroupResource(), namespace)
		}
	}
	return nil
}

// Finalizes reports whether there is a finalize hook.
func (spec *Spec) Finalizes() bool { return spec.finalize }
