// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// switchSet stands for the switches that one Machine controls and that have the same labels. Other Machines whose selector matches these labels
// have to know that there are such switches, and nothing else of them. As a rule a Machine has one set, however many switches it has.
type switchSet struct {
	key       string
	namespace string
	owner     metav1.OwnerReference
	labels    labels.Set
	// size is the number of switches. Only the handler of events uses it.
	size int
}

// setOf returns a set like that of the Switch; nil if no Machine controls the Switch.
func setOf(sw *v1alpha1.Switch) *switchSet {
	owner := machineOwner(sw)
	if owner == nil {
		return nil
	}
	set := labels.Set(sw.Labels)
	// Quoted: an owner reference may name and identify its owner by any text.
	key := fmt.Sprintf("%s %q %q %s", sw.Namespace, owner.Name, owner.UID, set)
	return &switchSet{key: key, namespace: sw.Namespace, owner: *owner, labels: set}
}

// switchSets are the sets of all switches that Machines control, as the events of switches show them.
type switchSets struct {
	// indexer has the sets, by their buckets and owners.
	indexer cache.Indexer
	// ofSwitch are the sets of the switches. Only the handler of events uses it.
	ofSwitch map[cache.ObjectName]*switchSet
}

func newSwitchSets() *switchSets {
	return &switchSets{
		indexer: cache.NewIndexer(func(obj any) (string, error) { return obj.(*switchSet).key, nil }, cache.Indexers{
			bucketIndex: func(obj any) ([]string, error) {
				set := obj.(*switchSet)
				return labelBuckets(set.namespace, set.labels), nil
			},
			ownerIndex: func(obj any) ([]string, error) {
				set := obj.(*switchSet)
				return []string{ownerKey(set.namespace, set.owner.UID)}, nil
			},
		}),
		ofSwitch: map[cache.ObjectName]*switchSet{},
	}
}

// move puts the Switch of that name into its set; into none if it is nil. It returns the labels of sets that have their first Switch now, or
// have lost their last one.
func (s *switchSets) move(name cache.ObjectName, sw *v1alpha1.Switch) (changed []labels.Set, err error) {
	left := s.ofSwitch[name]
	var entered *switchSet
	if sw != nil {
		entered = setOf(sw)
	}
	if left != nil && entered != nil && left.key == entered.key {
		return nil, nil
	}
	// The new set is added first: an owner that has one Switch has a set at any time.
	if entered != nil {
		if known, exists, _ := s.indexer.GetByKey(entered.key); exists {
			entered = known.(*switchSet)
		} else {
			err = s.indexer.Add(entered)
			changed = append(changed, entered.labels)
		}
		entered.size++
		s.ofSwitch[name] = entered
	}
	if left == nil {
		return changed, err
	}
	if entered == nil {
		delete(s.ofSwitch, name)
	}
	left.size--
	if left.size > 0 || err != nil {
		return changed, err
	}
	return append(changed, left.labels), s.indexer.Delete(left)
}
