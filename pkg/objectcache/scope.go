// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// scope is which objects of a resource a user wants, or a watch brings. Empty parts mean all.
type scope struct {
	namespace, name string
	// selector is nil for all; selectorText is its text, by which two selectors are compared.
	selector     labels.Selector
	selectorText string
}

func newScope(namespace, name string, selector labels.Selector) (scope, error) {
	s := scope{namespace: namespace, name: name}
	if selector != nil && !selector.Empty() {
		s.selector, s.selectorText = selector, selector.String()
		if s.selectorText == "" {
			return scope{}, errors.New("its label selector matches nothing")
		}
	}
	return s, nil
}

// matches reports whether the object, which may be nil, is in the scope.
func (s *scope) matches(o *RawObject) bool {
	return o != nil &&
		(s.namespace == "" || o.GetNamespace() == s.namespace) &&
		(s.name == "" || o.GetName() == s.name) &&
		(s.selector == nil || s.selector.Matches(o.Labels()))
}

// within returns the object if it is in the scope, else nil.
func (s *scope) within(o *RawObject) *RawObject {
	if !s.matches(o) {
		return nil
	}
	return o
}

func (s *scope) equals(other *scope) bool {
	return s.namespace == other.namespace && s.name == other.name && s.selectorText == other.selectorText
}

// covers reports whether all that is in the other scope is in this one.
func (s *scope) covers(other *scope) bool {
	return (s.namespace == "" || s.namespace == other.namespace) &&
		(s.name == "" || s.name == other.name) &&
		(s.selector == nil || s.selectorText == other.selectorText)
}

// union returns the narrowest scope that covers both: narrowed by that on which both agree.
func (s *scope) union(other *scope) scope {
	both := *s
	if both.namespace != other.namespace {
		both.namespace = ""
	}
	if both.name != other.name {
		both.name = ""
	}
	if both.selectorText != other.selectorText {
		both.selector, both.selectorText = nil, ""
	}
	return both
}

// newer reports whether one resourceVersion is later than another. Some aggregated APIs have versions that cannot be compared: then no.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
