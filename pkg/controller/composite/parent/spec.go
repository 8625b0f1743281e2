// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

const (
	finalizerPrefix = "metacontroller.io/compositecontroller-"
	// maxFinalizerName is the maximum length of a finalizer after its slash.
	maxFinalizerName = 63
)

// Spec is the compiled spec of a CompositeController.
type Spec struct {
	// finalizer that parents get.
	finalizer string
	parent    Resource
	// parents is the label selector of parents.
	parents             labels.Selector
	ignoreStatusChanges bool
	generateSelector    bool
	// sync and finalize report which hooks there are.
	sync, finalize bool
	// children are sorted by group, version and kind.
	children []childType
}

// childType is a type of children.
type childType struct {
	Resource
	method v1alpha1.ChildUpdateMethod
}

// Problem is a reason and a message of the condition Ready of a CompositeController.
type Problem struct{ Reason, Message string }

func invalid(format string, args ...any) *Problem {
	return &Problem{v1alpha1.ReasonInvalidSpec, fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *Problem {
	return &Problem{v1alpha1.ReasonNotYetSupported, fmt.Sprintf(format, args...)}
}

// enabled reports whether a hook is configured. A hook without a webhook is not.
func enabled(hook *v1alpha1.Hook) bool { return hook != nil && hook.Webhook != nil }

// CheckSpec validates a spec without looking at the API server. It returns nil for a valid one.
func CheckSpec(spec *v1alpha1.CompositeControllerSpec) *Problem {
	hooks := spec.Hooks
	switch {
	case hooks == nil:
		return invalid("spec.hooks: no hooks defined: give sync, finalize or both")
	case !enabled(hooks.Sync) && !enabled(hooks.Finalize):
		return invalid("spec.hooks: neither sync nor finalize has a webhook")
	case enabled(hooks.Customize):
		return unsupported("spec.hooks.customize: related objects are not yet supported")
	}
	if _, err := ResourceOf(spec.ParentResource.ResourceRule); err != nil {
		return invalid("spec.parentResource: %v", err)
	}
	if _, err := ParentSelector(spec); err != nil {
		return invalid("spec.parentResource.labelSelector: %v", err)
	}
	versions := map[schema.GroupResource]string{}
	for i, child := range spec.ChildResources {
		of, err := ResourceOf(child.ResourceRule)
		if err != nil {
			return invalid("spec.childResources[%d]: %v", i, err)
		}
		if other, found := versions[of.GroupResource()]; found && other != of.Version {
			return invalid("spec.childResources[%d]: %s is already listed in version %s: one object would be two children", i, of.GroupResource(), other)
		}
		versions[of.GroupResource()] = of.Version
		switch method := methodOf(child); method {
		case v1alpha1.ChildUpdateOnDelete, v1alpha1.ChildUpdateRecreate, v1alpha1.ChildUpdateInPlace:
		case v1alpha1.ChildUpdateRollingRecreate, v1alpha1.ChildUpdateRollingInPlace:
			return unsupported("spec.childResources[%d].updateStrategy.method: %s is not yet supported", i, method)
		default:
			return invalid("spec.childResources[%d].updateStrategy.method: invalid method %q: must be OnDelete, Recreate or InPlace", i, method)
		}
	}
	return nil
}

// Resources returns the resources that a spec needs. CheckSpec must have found it valid.
func Resources(spec *v1alpha1.CompositeControllerSpec) (parent schema.GroupVersionResource, children []schema.GroupVersionResource) {
	parent, _ = ResourceOf(spec.ParentResource.ResourceRule)
	for _, rule := range spec.ChildResources {
		child, _ := ResourceOf(rule.ResourceRule)
		children = append(children, child)
	}
	return parent, children
}

// Compile compiles a CompositeController for an API server that serves these of its Resources.
func Compile(cc *v1alpha1.CompositeController, served map[schema.GroupVersionResource]Resource) (*Spec, *Problem) {
	from := &cc.Spec
	if problem := CheckSpec(from); problem != nil {
		return nil, problem
	}
	parent, children := Resources(from)
	selector, _ := ParentSelector(from)
	spec := &Spec{
		finalizer:           finalizerPrefix + cc.Name,
		parents:             selector,
		ignoreStatusChanges: isTrue(from.ParentResource.IgnoreStatusChanges),
		generateSelector:    isTrue(from.GenerateSelector),
		sync:                enabled(from.Hooks.Sync),
		finalize:            enabled(from.Hooks.Finalize),
	}
	if _, name, _ := strings.Cut(spec.finalizer, "/"); spec.finalize && len(name) > maxFinalizerName {
		return nil, invalid("metadata.name: with a finalize hook it may have %d characters at most, for parents get the finalizer %s", len(cc.Name)-len(name)+maxFinalizerName, spec.finalizer)
	}
	var found bool
	if spec.parent, found = served[parent]; !found {
		return nil, &Problem{v1alpha1.ReasonParentNotServed, fmt.Sprintf("the API server does not serve %s in version %s: install its CustomResourceDefinition, or correct spec.parentResource", parent.GroupResource(), parent.Version)}
	}
	if !spec.parent.Status {
		return nil, &Problem{v1alpha1.ReasonStatusSubresourceMissing, fmt.Sprintf("%s in version %s does not have subresource 'Status' enabled: add subresources.status to its CustomResourceDefinition", parent.GroupResource(), parent.Version)}
	}
	for i, child := range children {
		of, found := served[child]
		if !found {
			return nil, &Problem{v1alpha1.ReasonChildNotServed, fmt.Sprintf("the API server does not serve %s in version %s: install its CustomResourceDefinition, or correct spec.childResources[%d]", child.GroupResource(), child.Version, i)}
		}
		if spec.parent.Namespaced && !of.Namespaced {
			return nil, invalid("spec.childResources[%d]: %s are cluster-scoped, and a namespaced parent cannot own them", i, child.GroupResource())
		}
		// The last of two rules for one type wins.
		spec.children = slices.DeleteFunc(spec.children, func(t childType) bool { return t.Resource == of })
		spec.children = append(spec.children, childType{of, methodOf(from.ChildResources[i])})
	}
	slices.SortFunc(spec.children, func(a, b childType) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return spec, nil
}

// SameResources reports whether two Specs compiled from the same spec have the same resources.
func (spec *Spec) SameResources(other *Spec) bool {
	return spec.parent == other.parent && slices.Equal(spec.children, other.children)
}

// ResourceOf returns the resource that a rule names, or an error if it names none.
func ResourceOf(rule v1alpha1.ResourceRule) (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil || version.Version == "" || rule.Resource == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("apiVersion %q and resource %q are not group/version (or version) and a plural name", rule.APIVersion, rule.Resource)
	}
	return version.WithResource(rule.Resource), nil
}

// ParentSelector returns the label selector of parents.
func ParentSelector(spec *v1alpha1.CompositeControllerSpec) (labels.Selector, error) {
	if spec.ParentResource.LabelSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(spec.ParentResource.LabelSelector)
}

func methodOf(child v1alpha1.CompositeControllerChildResourceRule) v1alpha1.ChildUpdateMethod {
	if child.UpdateStrategy == nil || child.UpdateStrategy.Method == "" {
		return v1alpha1.ChildUpdateOnDelete
	}
	return child.UpdateStrategy.Method
}

// HasFinalizeHook reports whether parents get the finalizer of the CompositeController.
func HasFinalizeHook(spec *v1alpha1.CompositeControllerSpec) bool {
	return spec.Hooks != nil && enabled(spec.Hooks.Finalize)
}

// CheckNamespace returns the problem of an engine that works in one namespace, "" for all, where parents are cluster-scoped.
func (spec *Spec) CheckNamespace(namespace string) *Problem {
	if namespace == "" || spec.parent.Namespaced {
		return nil
	}
	return unsupported("spec.parentResource: %s are cluster-scoped, and this engine works in the namespace %s only", spec.parent.GroupResource(), namespace)
}

// Finalizes reports whether there is a finalize hook.
func (spec *Spec) Finalizes() bool { return spec.finalize }

func isTrue(b *bool) bool { return b != nil && *b }
