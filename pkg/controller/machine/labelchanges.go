// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// maxLabelChanges is how many labels of a namespace are remembered. If there are more, all its Machines are synced.
const maxLabelChanges = 1000

// labelChanges are, by namespace, the labels of switches that have come, changed or gone since they were last matched with the selectors of Machines.
// The handlers of events only collect them: matching them may take long, and would delay the events of all namespaces.
type labelChanges struct {
	mu          sync.Mutex
	byNamespace map[string]*changesOfNamespace
}

type changesOfNamespace struct {
	// keys of Machines that are synced in any case.
	keys sets.Set[cache.ObjectName]
	// labels by their text; nil if isTruncated.
	labels map[string]labels.Set
	// isTruncated reports whether there were too many labels.
	isTruncated bool
}

// add remembers changes, and Machines that are synced together with those that the changes concern.
func (l *labelChanges) add(namespace string, keys []cache.ObjectName, changed []labels.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNamespace == nil {
		l.byNamespace = map[string]*changesOfNamespace{}
	}
	c := l.byNamespace[namespace]
	if c == nil {
		c = &changesOfNamespace{keys: sets.New[cache.ObjectName](), labels: map[string]labels.Set{}}
		l.byNamespace[namespace] = c
	}
	c.keys.Insert(keys...)
	for _, set := range changed {
		if c.isTruncated {
			return
		}
		c.labels[set.String()] = set
		if len(c.labels) > maxLabelChanges {
			c.isTruncated, c.labels = true, nil
		}
	}
}

// take returns the changes of a namespace and forgets them.
func (l *labelChanges) take(namespace string) (changes changesOfNamespace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.byNamespace[namespace]; c != nil {
		changes = *c
		delete(l.byNamespace, namespace)
	}
	return changes
}
