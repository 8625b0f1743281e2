// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// selection is a predicate in two parts: what the API server of the records can decide, and what has to be decided here.
type selection struct {
	labels, fields string
	// here is empty in the daily case.
	here storage.SelectionPredicate
}

func split(predicate storage.SelectionPredicate) selection {
	there, here := []fields.Selector{}, []fields.Selector{}
	if predicate.Field != nil {
		for _, term := range predicate.Field.Requirements() {
			selector := fields.OneTermEqualSelector(term.Field, term.Value)
			if term.Operator == "!=" {
				selector = fields.OneTermNotEqualSelector(term.Field, term.Value)
			}
			// These are the fields of every custom resource.
			if term.Field == metav1.ObjectNameField || term.Field == "metadata.namespace" {
				there = append(there, selector)
			} else {
				here = append(here, selector)
			}
		}
	}
	s := selection{fields: fields.AndSelectors(there...).String(), here: predicate}
	s.here.Label, s.here.Field = labels.Everything(), fields.AndSelectors(here...)
	if predicate.Label != nil {
		s.labels = predicate.Label.String()
	}
	return s
}

// matches decides what has to be decided here.
func (s *selection) matches(object runtime.Object) bool {
	if s.here.Empty() {
		return true
	}
	matched, err := s.here.Matches(object)
	return err == nil && matched
}
