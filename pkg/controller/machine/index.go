// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// With many Machines in one namespace a sync must not read all switches, nor an event all Machines. A Machine and a Switch that can match
// share a bucket: a Machine is in that of one of its matchLabels, a Switch in those of all its labels. A Machine that
// has only expressions is in a bucket that every Switch is in too. So that it does not read every Switch of the other Machines, it reads only
// the sets of these.
const (
	// bucketIndex of Machines, of sets, and of switches that no Machine controls.
	bucketIndex = "machine.bucket"
	// ownerIndex has switches and sets by the Machine that controls them.
	ownerIndex = "machine.owner"

	// maxIndexedLabels is how many labels of a Switch are buckets. With more of them the Switch is in one bucket that all Machines read: an index
	// has many times the size of the labels, which the API server limits only by the size of the object.
	maxIndexedLabels = 100
)

func machineIndexers() cache.Indexers {
	return cache.Indexers{bucketIndex: func(obj any) ([]string, error) {
		return []string{machineBucket(obj.(*v1alpha1.Machine))}, nil
	}}
}

func switchIndexers() cache.Indexers {
	return cache.Indexers{
		bucketIndex: func(obj any) ([]string, error) {
			sw := obj.(*v1alpha1.Switch)
			if machineOwner(sw) != nil {
				return nil, nil
			}
			return labelBuckets(sw.Namespace, sw.Labels), nil
		},
		ownerIndex: func(obj any) ([]string, error) {
			sw := obj.(*v1alpha1.Switch)
			if owner := machineOwner(sw); owner != nil {
				return []string{ownerKey(sw.Namespace, owner.UID)}, nil
			}
			return nil, nil
		},
	}
}

// ownerKey is the value of ownerIndex.
func ownerKey(namespace string, owner types.UID) string { return namespace + "/" + string(owner) }

func machineBucket(machine *v1alpha1.Machine) string {
	wanted := labelSelector(machine).MatchLabels
	if len(wanted) == 0 {
		return machine.Namespace
	}
	key := slices.Min(slices.Collect(maps.Keys(wanted)))
	return labelBucket(machine.Namespace, key, wanted[key])
}

func labelBuckets(namespace string, set labels.Set) []string {
	buckets := []string{namespace}
	if len(set) > maxIndexedLabels {
		return append(buckets, manyLabelsBucket(namespace))
	}
	for key, value := range set {
		buckets = append(buckets, labelBucket(namespace, key, value))
	}
	return buckets
}

// manyLabelsBucket has what has more labels than are indexed.
func manyLabelsBucket(namespace string) string { return namespace + " many labels" }

// bucketsOf returns the buckets that have everything that the Machine can match.
func bucketsOf(machine *v1alpha1.Machine) []string {
	bucket := machineBucket(machine)
	if bucket == machine.Namespace {
		return []string{bucket}
	}
	return []string{bucket, manyLabelsBucket(machine.Namespace)}
}

// labelBucket is never a namespace: its separators cannot be part of a name.
func labelBucket(namespace, key, value string) string {
	return namespace + " " + key + "=" + value
}

// inIndex returns the objects of an index. They are the cache's own.
func inIndex[T any](indexer cache.Indexer, index string, values ...string) (objects []T, err error) {
	for _, value := range values {
		found, err := indexer.ByIndex(index, value)
		if err != nil {
			return nil, fmt.Errorf("looking up %s in the index %s: %w", value, index, err)
		}
		objects = slices.Grow(objects, len(found))
		for i := range found {
			objects = append(objects, found[i].(T))
		}
	}
	return objects, nil
}

// groupOf returns the group of an apiVersion; "" if it has none or is invalid.
func groupOf(apiVersion string) string {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return version.Group
}

// selectors caches the parsed selector of each Machine, which is immutable.
type selectors struct {
	mu     sync.Mutex
	parsed map[cache.ObjectName]parsedSelector
}

type parsedSelector struct {
	uid      types.UID
	selector labels.Selector
	err      error
}

func (s *selectors) of(machine *v1alpha1.Machine) (labels.Selector, error) {
	key := cache.MetaObjectToName(machine)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.parsed[key]; ok && known.uid == machine.UID {
		return known.selector, known.err
	}
	if s.parsed == nil {
		s.parsed = map[cache.ObjectName]parsedSelector{}
	}
	selector, err := parseSelector(machine)
	s.parsed[key] = parsedSelector{machine.UID, selector, err}
	return selector, err
}

// matches reports whether the Machine's selector can be used and matches the labels.
func (s *selectors) matches(machine *v1alpha1.Machine, set labels.Set) bool {
	selector, err := s.of(machine)
	return err == nil && selector.Matches(set)
}

func (s *selectors) forget(key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parsed, key)
}
