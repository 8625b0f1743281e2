// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package related

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/hook"
)

// Bounds are what the rules of an answer are judged by.
type Bounds struct {
	// Version is that of the customize hook. With v1, a namespaced parent selects objects of its own namespace alone, and of cluster-scoped
	// kinds.
	Version hook.Version
	// Receiver is the version of the hooks that get the objects, the highest if there are several. With v1, they see of a namespaced parent's related objects
	// those in its own namespace alone. Empty for unknown.
	Receiver hook.Version
	// Strict makes an unknown field of a rule an error. Else it is a warning.
	Strict bool
	// ParentNamespace is empty for a cluster-scoped parent.
	ParentNamespace string
	// EngineNamespace is the only namespace that the engine reads, empty for all.
	EngineNamespace string
}

// Answer is a customize answer whose rules are valid as far as that is known without asking the API server what it serves.
type Answer struct {
	// Warnings are what is wrong with the answer, but tolerated. At most ten.
	Warnings []string

	bounds Bounds
	rules  []Rule
}

// Parse reads and validates the rules of a customize answer, as [hook.DecodeCustomize] returns them. Nothing of them may be used where
// there is an error: it is a [*hook.Error] that names the field.
func Parse(raw [][]byte, bounds Bounds) (*Answer, error) {
	answer := &Answer{bounds: bounds}
	var unknown []string
	for i, text := range raw {
		at := path(i)
		read, unknownHere, err := readRule(at, text)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, unknownHere...)
		rule, err := read.compile(at, bounds, answer.warn)
		if err != nil {
			return nil, err
		}
		rule.index = i
		answer.rules = append(answer.rules, rule)
	}
	if len(unknown) > 0 && bounds.Strict {
		return nil, hook.NewError(hook.ReasonUnknownField, "strict validation failed for %s webhookResponse (type: customize, mode: %s): %s",
			bounds.Version, hook.Strict, strings.Join(unknown[:min(len(unknown), maxWarnings)], ", "))
	}
	for _, field := range unknown {
		answer.warn("%s", field)
	}
	return answer, nil
}

// Resources returns the resources of the rules, sorted, each once. [Answer.Resolve] needs to know how they are served.
func (a *Answer) Resources() []schema.GroupVersionResource {
	resources := make([]schema.GroupVersionResource, len(a.rules))
	for i := range a.rules {
		resources[i] = a.rules[i].resource
	}
	slices.SortFunc(resources, compareResources)
	return slices.Compact(resources)
}

func compareResources(a, b schema.GroupVersionResource) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource))
}

// maxWarnings bounds how many warnings an answer has, and how many unknown fields an error lists.
const maxWarnings = 10

func (a *Answer) warn(format string, args ...any) {
	if len(a.Warnings) < maxWarnings {
		a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
	}
}

func path(index int) string { return fmt.Sprintf("relatedResources[%d]", index) }

// compile validates a rule and compiles its selectors. at is the path to the rule.
func (read *ruleText) compile(at string, bounds Bounds, warn func(format string, args ...any)) (Rule, error) {
	rule := Rule{}
	var err error
	if rule.resource, err = read.resource(); err != nil {
		return Rule{}, invalid(at, err)
	}
	if err := read.contradiction(bounds); err != nil {
		return Rule{}, invalid(at, err)
	}
	if rule.selector, err = compileSelector("labelSelector", read.LabelSelector); err != nil {
		return Rule{}, invalid(at, err)
	}
	if rule.namespaces, err = compileSelector("namespaceSelector", read.NamespaceSelector); err != nil {
		return Rule{}, invalid(at, err)
	}
	rule.byNamespaces = read.NamespaceSelector != nil
	if rule.namespace = read.Namespace; rule.namespace != "" {
		if err := checkNamespace(rule.namespace); err != nil {
			return Rule{}, invalid(at, err)
		}
	}
	rule.byName = len(read.Names) > 0 // an empty list is as good as none, as in Metacontroller
	for i, name := range read.Names {
		if name == "" {
			warn("%s.names[%d]: is empty, so that it selects nothing", at, i)
			continue
		}
		if err := checkName(i, name); err != nil {
			return Rule{}, invalid(at, err)
		}
		rule.names = append(rule.names, name)
	}
	slices.Sort(rule.names)
	rule.names = slices.Compact(rule.names)
	return rule, nil
}

// contradiction reports fields that exclude each other, or what the parent may see.
func (read *ruleText) contradiction(bounds Bounds) error {
	own := bounds.ParentNamespace
	narrow := bounds.Version == hook.V1 && own != ""
	switch {
	case len(read.Names) > 0 && read.LabelSelector != nil:
		return errors.New("names: excludes labelSelector: remove one of both, or make two rules")
	case len(read.Names) > 0 && read.NamespaceSelector != nil:
		return errors.New("names: excludes namespaceSelector: give the namespace, or select by labelSelector")
	case read.Namespace != "" && read.NamespaceSelector != nil:
		return errors.New("namespace: excludes namespaceSelector: remove one of both, or make two rules")
	case narrow && read.NamespaceSelector != nil:
		return fmt.Errorf("namespaceSelector: a customize hook of version v1 selects for a namespaced parent in its own namespace alone: remove the field, "+
			"or set version %s of the hook", hook.V2)
	case narrow && read.Namespace != "" && read.Namespace != own:
		return fmt.Errorf("namespace: is %s, and a customize hook of version v1 selects for a namespaced parent in its own namespace alone, which is %q: "+
			"remove the field, or set version %s of the hook", quote(read.Namespace), own, hook.V2)
	case bounds.hides() && read.Namespace != "" && read.Namespace != own:
		return fmt.Errorf("namespace: is %s, and a sync or finalize hook of version v1 sees objects of a namespaced parent's own namespace alone, which is %q: "+
			"remove the field, or set version %s of that hook", quote(read.Namespace), own, hook.V2)
	case bounds.EngineNamespace != "" && read.Namespace != "" && read.Namespace != bounds.EngineNamespace:
		return fmt.Errorf("namespace: is %s, and the controllers read the namespace %q alone (their flag --namespace)", quote(read.Namespace), bounds.EngineNamespace)
	}
	return nil
}

// hides reports whether no hook sees what is not in the namespace of the parent.
func (b Bounds) hides() bool { return b.Receiver == hook.V1 && b.ParentNamespace != "" }

// compileSelector returns nil for a selector of everything.
func compileSelector(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("%s: is no label selector: %s", field, shorten(err.Error(), maxShown))
	}
	if compiled.Empty() {
		return nil, nil
	}
	return compiled, nil
}

func invalid(at string, err error) *hook.Error {
	return hook.NewError(hook.ReasonInvalidRelated, "invalid answer of the customize hook: %s.%w", at, err)
}
