// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// ParentResources returns the types of parents. CheckSpec must have found the Declaration valid.
func (d *Declaration) ParentResources() (parents []schema.GroupVersionResource) {
	for _, rule := range d.Parents {
		if of, _ := ResourceOf(rule.ResourceRule); !slices.Contains(parents, of) {
			parents = append(parents, of)
		}
	}
	return parents
}

// ChildResources returns the types of children. CheckSpec must have found the Declaration valid.
func (d *Declaration) ChildResources() (children []schema.GroupVersionResource) {
	for _, rule := range d.Children {
		if of, _ := ResourceOf(rule.ResourceRule); !slices.Contains(children, of) {
			children = append(children, of)
		}
	}
	return children
}

// ParentSelector returns the label selector of all parents of a type, nil if there is none that all have in common. CheckSpec must have found the
// Declaration valid.
func (d *Declaration) ParentSelector(of schema.GroupVersionResource) (selector labels.Selector) {
	for _, rule := range d.Parents {
		if resource, _ := ResourceOf(rule.ResourceRule); resource != of {
			continue
		}
		if selector != nil {
			return nil
		}
		selector, _ = rule.labelSelector()
	}
	return selector
}

// HasParents reports whether a rule of the Declaration, valid or not, is for a type.
func (d *Declaration) HasParents(of schema.GroupResource) bool {
	return slices.ContainsFunc(d.Parents, func(rule ParentRule) bool {
		r, err := ResourceOf(rule.ResourceRule)
		return err == nil && r.GroupResource() == of
	})
}

// ResourceOf returns the resource that a rule names, or an error if it names none.
func ResourceOf(rule v1alpha1.ResourceRule) (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil || version.Version == "" || rule.Resource == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("apiVersion %q and resource %q are not group/version (or version) and a plural name", rule.APIVersion, rule.Resource)
	}
	return version.WithResource(rule.Resource), nil
}

// labelSelector returns the selector of labels; one that matches all if there is none.
func (r ParentRule) labelSelector() (labels.Selector, error) {
	if r.LabelSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(r.LabelSelector)
}

// annotationSelector returns the selector of annotations, nil if there is none. The values that an annotation must have are not limited to
// those of labels.
func (r ParentRule) annotationSelector() (labels.Selector, error) {
	from := r.AnnotationSelector
	if from == nil || len(from.MatchAnnotations) == 0 && len(from.MatchExpressions) == 0 {
		return nil, nil
	}
	selector := labels.SelectorFromValidatedSet(from.MatchAnnotations)
	expressions, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: from.MatchExpressions})
	if err != nil {
		return nil, err
	}
	if requirements, selectable := expressions.Requirements(); selectable && len(from.MatchExpressions) > 0 {
		selector = selector.Add(requirements...)
	}
	return selector, nil
}

func (r ChildRule) method() v1alpha1.ChildUpdateMethod {
	if r.Method == "" {
		return v1alpha1.ChildUpdateOnDelete
	}
	return r.Method
}
