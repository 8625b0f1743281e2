// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

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
	// maxFinalizerName is how long a finalizer may be after its slash.
	maxFinalizerName = 63
)

// rules are what a CompositeController says, made ready for use.
type rules struct {
	// finalizer that parents get.
	finalizer string
	parent    resource
	// parents selects those that count.
	parents             labels.Selector
	ignoreStatusChanges bool
	generateSelector    bool
	// sync and finalize tell which hooks there are.
	sync, finalize bool
	// children are sorted by group, version and kind.
	children []childType
}

// childType is a type that children may be of.
type childType struct {
	resource
	method v1alpha1.ChildUpdateMethod
}

// problem is why a CompositeController does not serve its parents: a reason and a message of its condition Ready.
type problem struct{ reason, message string }

func invalid(format string, args ...any) *problem {
	return &problem{v1alpha1.ReasonInvalidSpec, fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *problem {
	return &problem{v1alpha1.ReasonNotYetSupported, fmt.Sprintf(format, args...)}
}

// enabled tells whether there is a hook to be called. One without a webhook is as good as none.
func enabled(hook *v1alpha1.Hook) bool { return hook != nil && hook.Webhook != nil }

// checkSpec finds what is wrong with a spec by itself, before anything is asked of the API server.
func checkSpec(spec *v1alpha1.CompositeControllerSpec) *problem {
	hooks := spec.Hooks
	switch {
	case hooks == nil:
		return invalid("spec.hooks: no hooks defined: give sync, finalize or both")
	case !enabled(hooks.Sync) && !enabled(hooks.Finalize):
		return invalid("spec.hooks: neither sync nor finalize has a webhook")
	case enabled(hooks.Customize):
		return unsupported("spec.hooks.customize: related objects are not yet supported")
	}
	if _, err := gvr(spec.ParentResource.ResourceRule); err != nil {
		return invalid("spec.parentResource: %v", err)
	}
	if _, err := parentSelector(spec); err != nil {
		return invalid("spec.parentResource.labelSelector: %v", err)
	}
	versions := map[schema.GroupResource]string{}
	for i, child := range spec.ChildResources {
		of, err := gvr(child.ResourceRule)
		if err != nil {
			return invalid("spec.childResources[%d]: %v", i, err)
		}
		if other, found := versions[of.GroupResource()]; found && other != of.Version {
			return invalid("spec.childResources[%d]: %s is there in version %s already: one object would be two children", i, of.GroupResource(), other)
		}
		versions[of.GroupResource()] = of.Version
		switch method := methodOf(child); method {
		case v1alpha1.ChildUpdateOnDelete, v1alpha1.ChildUpdateRecreate, v1alpha1.ChildUpdateInPlace:
		case v1alpha1.ChildUpdateRollingRecreate, v1alpha1.ChildUpdateRollingInPlace:
			return unsupported("spec.childResources[%d].updateStrategy.method: %s is not yet supported", i, method)
		default:
			return invalid("spec.childResources[%d].updateStrategy.method: there is no %s", i, method)
		}
	}
	return nil
}

// wanted are the resources that have to be served for a spec in which checkSpec finds nothing wrong.
func wanted(spec *v1alpha1.CompositeControllerSpec) (parent schema.GroupVersionResource, children []schema.GroupVersionResource) {
	parent, _ = gvr(spec.ParentResource.ResourceRule)
	for _, rule := range spec.ChildResources {
		child, _ := gvr(rule.ResourceRule)
		children = append(children, child)
	}
	return parent, children
}

// compile makes a CompositeController ready for use. What is served is given.
func compile(cc *v1alpha1.CompositeController, served map[schema.GroupVersionResource]resource) (*rules, *problem) {
	spec := &cc.Spec
	if wrong := checkSpec(spec); wrong != nil {
		return nil, wrong
	}
	parent, children := wanted(spec)
	selector, _ := parentSelector(spec)
	r := &rules{
		finalizer:           finalizerPrefix + cc.Name,
		parents:             selector,
		ignoreStatusChanges: isTrue(spec.ParentResource.IgnoreStatusChanges),
		generateSelector:    isTrue(spec.GenerateSelector),
		sync:                enabled(spec.Hooks.Sync),
		finalize:            enabled(spec.Hooks.Finalize),
	}
	if _, name, _ := strings.Cut(r.finalizer, "/"); r.finalize && len(name) > maxFinalizerName {
		return nil, invalid("metadata.name: with a finalize hook it may have %d characters at most, for parents get the finalizer %s", len(cc.Name)-len(name)+maxFinalizerName, r.finalizer)
	}
	var found bool
	if r.parent, found = served[parent]; !found {
		return nil, &problem{v1alpha1.ReasonParentNotServed, fmt.Sprintf("the API server does not serve %s in version %s: install its CustomResourceDefinition, or correct spec.parentResource", parent.GroupResource(), parent.Version)}
	}
	if !r.parent.Status {
		return nil, &problem{v1alpha1.ReasonStatusSubresourceMissing, fmt.Sprintf("%s in version %s does not have subresource 'Status' enabled: add subresources.status to its CustomResourceDefinition", parent.GroupResource(), parent.Version)}
	}
	for i, child := range children {
		of, found := served[child]
		if !found {
			return nil, &problem{v1alpha1.ReasonChildNotServed, fmt.Sprintf("the API server does not serve %s in version %s: install its CustomResourceDefinition, or correct spec.childResources[%d]", child.GroupResource(), child.Version, i)}
		}
		if r.parent.Namespaced && !of.Namespaced {
			return nil, invalid("spec.childResources[%d]: %s are cluster-scoped, and a namespaced parent cannot own them", i, child.GroupResource())
		}
		// Of two rules for one type the last one counts.
		r.children = slices.DeleteFunc(r.children, func(t childType) bool { return t.resource == of })
		r.children = append(r.children, childType{of, methodOf(spec.ChildResources[i])})
	}
	slices.SortFunc(r.children, func(a, b childType) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return r, nil
}

// sameResources tells whether the API server serves the same as before for a spec that has not changed.
func (r *rules) sameResources(as *rules) bool {
	return r.parent == as.parent && slices.Equal(r.children, as.children)
}

func gvr(rule v1alpha1.ResourceRule) (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil || version.Version == "" || rule.Resource == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("apiVersion %q and resource %q are not group/version (or version) and a plural name", rule.APIVersion, rule.Resource)
	}
	return version.WithResource(rule.Resource), nil
}

func parentSelector(spec *v1alpha1.CompositeControllerSpec) (labels.Selector, error) {
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

func isTrue(b *bool) bool { return b != nil && *b }
