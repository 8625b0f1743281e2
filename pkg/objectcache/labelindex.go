// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	// indexedFrom is the number of objects from which those with a label are worth an index.
	indexedFrom = 100
	// maxIndexes is the number of labels of a resource that are indexed.
	maxIndexes = 8
)

// labelIndex finds the objects with a value of a label. There is one for each label by which a user has listed many objects.
type labelIndex map[string]map[*RawObject]struct{}

func (x labelIndex) put(value string, o *RawObject) {
	if x[value] == nil {
		x[clone(value)] = map[*RawObject]struct{}{}
	}
	x[value][o] = struct{}{}
}

func (x labelIndex) remove(value string, o *RawObject) {
	delete(x[value], o)
	if len(x[value]) == 0 {
		delete(x, value)
	}
}

// demands calls visit for each label of which the selector demands one of a few values.
func demands(selector labels.Selector, visit func(label string, values []string)) {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) <= maxValues {
				visit(r.Key(), values)
			}
		}
	}
}

// unindexed returns the labels that the selector demands and that are not indexed, if an index of them would save something.
func (s *store) unindexed(namespace string, selector labels.Selector) (found []string) {
	if selector == nil || s.count(namespace) < indexedFrom {
		return nil
	}
	demands(selector, func(label string, _ []string) {
		if _, indexed := s.labels[label]; !indexed && len(s.labels)+len(found) < maxIndexes {
			found = append(found, label)
		}
	})
	return found
}

// index begins an index of each of the labels.
func (s *store) index(found []string) {
	for _, label := range found {
		if _, indexed := s.labels[label]; indexed || len(s.labels) == maxIndexes {
			continue
		}
		if s.labels == nil {
			s.labels = map[string]labelIndex{}
		}
		x := labelIndex{}
		s.labels[label] = x
		s.each("", func(o *RawObject) {
			if value, labelled := o.Labels().Lookup(label); labelled {
				x.put(value, o)
			}
		})
	}
}

// eachLabelled calls visit for objects of a namespace, or all if that is "": at least those that the selector matches, and as few others as
// possible.
func (s *store) eachLabelled(namespace string, selector labels.Selector, visit func(*RawObject)) {
	fewest := s.count(namespace)
	var best []map[*RawObject]struct{}
	if selector != nil && len(s.labels) > 0 {
		demands(selector, func(label string, values []string) {
			x, indexed := s.labels[label]
			if !indexed {
				return
			}
			buckets, size := make([]map[*RawObject]struct{}, 0, len(values)), 0
			for _, value := range values {
				buckets = append(buckets, x[value])
				size += len(x[value])
			}
			if size < fewest {
				best, fewest = buckets, size
			}
		})
	}
	if best == nil {
		s.each(namespace, visit)
		return
	}
	for _, bucket := range best {
		for o := range bucket {
			if namespace == "" || o.GetNamespace() == namespace {
				visit(o)
			}
		}
	}
}

// count is the number of objects in a namespace, or of all if that is "".
func (s *store) count(namespace string) (objects int) {
	for in := range s.selected(namespace) {
		objects += len(in.objects)
	}
	return objects
}
