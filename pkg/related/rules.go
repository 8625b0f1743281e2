// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package related

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/hook"
)

// namespacesResource is what namespaceSelectors select.
var namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Resource is how the API server serves a resource.
type Resource struct {
	Kind       string
	Namespaced bool
}

// Rule selects objects of one resource: those that match all that it has. It never changes.
type Rule struct {
	resource schema.GroupVersionResource
	served   Resource
	// namespace is empty for all namespaces, and for cluster-scoped resources.
	namespace string
	// byName reports whether only objects of these names, which are sorted, are selected.
	byName bool
	names  []string
	// selector is nil for all labels.
	selector labels.Selector
	// byNamespaces reports whether only objects in namespaces with certain labels are selected.
	byNamespaces bool
	namespaces   labels.Selector

	// id is equal for rules that select the same.
	id string
	// index in the answer.
	index int
}

// Rules are the compiled rules of one answer. They never change.
type Rules struct {
	rules []Rule
	// groups are the types of the rules, sorted, each once: two rules for one type are a union.
	groups []schema.GroupVersionKind
	// scopes have all that the rules select, sorted, each once.
	scopes []scope
}

// Len returns the number of rules that differ.
func (r *Rules) Len() int { return len(r.rules) }

// Equal reports whether both have the same rules in the same order.
func (r *Rules) Equal(other *Rules) bool {
	return slices.EqualFunc(r.rules, other.rules, func(a, b Rule) bool { return a.id == b.id })
}

// Resolve compiles the rules for an API server that serves these of their [Answer.Resources]. The error is a [*hook.Error] that names the
// field.
func (a *Answer) Resolve(served map[schema.GroupVersionResource]Resource) (*Rules, error) {
	rules := &Rules{rules: make([]Rule, 0, len(a.rules))}
	seen := make(map[string]struct{}, len(a.rules))
	for _, rule := range a.rules {
		of, found := served[rule.resource]
		if !found {
			return nil, hook.NewError(hook.ReasonRelatedNotServed, "invalid answer of the customize hook: %s.resource: the API server does not serve %s in version %s: "+
				"install its CustomResourceDefinition, or correct the rule", path(rule.index), rule.resource.GroupResource(), rule.resource.Version)
		}
		rule.served = of
		if err := rule.place(a.bounds); err != nil {
			return nil, invalid(path(rule.index), err)
		}
		rule.id = rule.describe()
		if _, twice := seen[rule.id]; twice {
			continue
		}
		seen[rule.id] = struct{}{}
		rules.rules = append(rules.rules, rule)
		rules.groups = append(rules.groups, rule.kind())
	}
	slices.SortFunc(rules.groups, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	rules.groups = slices.Compact(rules.groups)
	rules.scopes = scopesOf(rules.rules, a.bounds.EngineNamespace)
	return rules, nil
}

func (r *Rule) kind() schema.GroupVersionKind {
	return r.resource.GroupVersion().WithKind(r.served.Kind)
}

// place decides in which namespaces the rule selects.
func (r *Rule) place(bounds Bounds) error {
	if !r.served.Namespaced {
		switch {
		case r.namespace != "":
			return fmt.Errorf("namespace: %s are cluster-scoped: remove the field", r.resource.GroupResource())
		case r.byNamespaces:
			return fmt.Errorf("namespaceSelector: %s are cluster-scoped: remove the field, or select by labelSelector", r.resource.GroupResource())
		case bounds.hides():
			return fmt.Errorf("resource: %s are cluster-scoped, and a sync or finalize hook of version v1 does not see them for a namespaced parent: set version %s of that hook",
				r.resource.GroupResource(), hook.V2)
		}
		return nil
	}
	if bounds.Version == hook.V1 && bounds.ParentNamespace != "" {
		r.namespace = bounds.ParentNamespace
	}
	if bounds.EngineNamespace != "" && r.namespace == "" {
		r.namespace = bounds.EngineNamespace
	}
	r.byNamespaces = r.namespaces != nil
	return nil
}

// describe returns what the rule selects as a text. No part has a line break.
func (r *Rule) describe() string {
	var text strings.Builder
	for _, part := range []string{r.resource.Group, r.resource.Version, r.resource.Resource, r.namespace, textOf(r.selector)} {
		text.WriteString(part)
		text.WriteByte('\n')
	}
	if r.byNamespaces {
		text.WriteString("in ")
		text.WriteString(textOf(r.namespaces))
	}
	if r.byName {
		text.WriteString("\nnamed")
		for _, name := range r.names {
			text.WriteByte('\n')
			text.WriteString(name)
		}
	}
	return text.String()
}

func textOf(selector labels.Selector) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}
