// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// With many Machines in one namespace a sync must not read all switches, nor an event all Machines. A Machine and a Switch that can match
// share a bucket: a Machine is in that of one of its matchLabels, a Switch in those of all its labels. Machines that
// have only expressions share a bucket that every Switch is in too.
const (
	// bucketIndex of Machines and of switches.
	bucketIndex = "machine.bucket"
	// ownerIndex has switches by the UID of their controller.
	ownerIndex = "machine.owner"
)

func machineIndexers() cache.Indexers {
	return cache.Indexers{bucketIndex: func(obj any) ([]string, error) {
		return []string{machineBucket(obj.(*v1alpha1.Machine))}, nil
	}}
}

func switchIndexers() cache.Indexers {
	return cache.Indexers{
		bucketIndex: func(obj any) ([]string, error) { return switchBuckets(obj.(*v1alpha1.Switch)), nil },
		ownerIndex: func(obj any) ([]string, error) {
			if owner := metav1.GetControllerOfNoCopy(obj.(*v1alpha1.Switch)); owner != nil {
				return []string{string(owner.UID)}, nil
			}
			return nil, nil
		},
	}
}

func machineBucket(machine *v1alpha1.Machine) string {
	wanted := labelSelector(machine).MatchLabels
	if len(wanted) == 0 {
		return machine.Namespace
	}
	key := slices.Min(slices.Collect(maps.Keys(wanted)))
	return labelBucket(machine.Namespace, key, wanted[key])
}

func switchBuckets(sw *v1alpha1.Switch) []string {
	buckets := []string{sw.Namespace}
	for key, value := range sw.Labels {
		buckets = append(buckets, labelBucket(sw.Namespace, key, value))
	}
	return buckets
}

// labelBucket is never a namespace: its separators cannot be part of a name.
func labelBucket(namespace, key, value string) string {
	return namespace + " " + key + "=" + value
}

// inIndex returns the objects of an index. They are the cache's own.
func inIndex[T any](indexer cache.Indexer, index, value string) ([]T, error) {
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil, fmt.Errorf("looking up %s in the index %s: %w", value, index, err)
	}
	objects := make([]T, len(found))
	for i := range found {
		objects[i] = found[i].(T)
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
