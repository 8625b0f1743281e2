// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"millwright.dev/pkg/merge"
)

// A child with the method Recreate may differ although the same was applied to it as is desired now. Either another client has edited it, or the
// API server (defaulting, admission) has changed it when it was created. A recreation repairs the first, and not the second. The child itself
// shows which one it is, so that a restart decides the same: an object whose spec was never edited has generation 1. What the
// generation does not show (labels, annotations, kinds without a generation, an edit of another field) is found by a dry run, which
// creates the child under another name. So is what the API server has dropped by a CustomResourceDefinition: that may have the field now.

// createdGeneration is the metadata.generation of a new object. Kinds without a generation have 0.
const createdGeneration = 1

// differences are the fields in which an object is not as desired: a hash of the observed value by the path.
type differences map[string]uint64

// differencesOf returns the differences of an observed object from the merged one.
func differencesOf(observed, merged map[string]any) differences {
	d := differences{}
	for _, key := range keysOf(observed, merged) {
		d.find("."+key, observed[key], merged[key])
	}
	return d
}

// find adds the differences at and below a path. The elements of two lists of the same length are compared in pairs.
func (d differences) find(path string, observed, merged any) {
	switch merged := merged.(type) {
	case map[string]any:
		areAnnotations := path == ".metadata.annotations"
		before, isObject := observed.(map[string]any)
		if isObject || areAnnotations && observed == nil { // there may be none but the record
			for _, key := range keysOf(before, merged) {
				if !areAnnotations || !merge.IsRecord(key) {
					d.find(path+"."+key, before[key], merged[key])
				}
			}
			return
		}
	case []any:
		if observed, ok := observed.([]any); ok && len(observed) == len(merged) {
			for i := range merged {
				d.find(fmt.Sprintf("%s[%d]", path, i), observed[i], merged[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(observed, merged) {
		d[path] = merge.HashTree(observed)
	}
}

// hasChanged reports whether a write has changed any value of an object but the record. Some kinds count annotations, such as the record, as a generation.
func hasChanged(before, after map[string]any) bool {
	differs := differencesOf(before, after)
	delete(differs, ".metadata.resourceVersion")
	delete(differs, ".metadata.generation")
	return len(differs) > 0
}

func keysOf(a, b map[string]any) []string {
	all := maps.Clone(b)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, a)
	return slices.Sorted(maps.Keys(all))
}

// absent is the hash of a field that an object does not have.
var absent = merge.HashTree(nil)

// sinceCreation drops what the object has had since its creation, by its generation. What it lacks remains, unless its type cannot change.
func (d differences) sinceCreation(generation int64, isOfKubernetes bool) differences {
	if generation != createdGeneration {
		return d
	}
	d = maps.Clone(d)
	maps.DeleteFunc(d, func(path string, value uint64) bool {
		return !strings.HasPrefix(path, ".metadata.") && (isOfKubernetes || value != absent)
	})
	return d
}

// areDropped reports whether the API server may have dropped all of the fields, and no client has edited one.
func (d differences) areDropped(generation int64) bool {
	for path := range d {
		if strings.HasPrefix(path, ".metadata.") {
			return false
		}
	}
	return generation == createdGeneration
}

// within reports whether all of these differences are among others.
func (d differences) within(others differences) bool {
	for path, value := range d {
		if other, found := others[path]; !found || other != value {
			return false
		}
	}
	return true
}

// hash returns a hash that is valid in this process.
func (d differences) hash() uint64 {
	tree := make(map[string]any, len(d))
	for path, value := range d {
		tree[path] = int64(value)
	}
	return merge.HashTree(tree)
}

// remainingAfter returns the differences that an object has although it was just written as desired: the API server stores something else. A rolling
// update does not wait for what can never be.
func remainingAfter(written object, desired map[string]any, update merger) (differences, error) {
	tree, err := treeOf(written)
	if err != nil {
		return nil, err
	}
	verdict, err := update(tree, desired)
	if err != nil || !verdict.Differs || verdict.DesiredChanged {
		return nil, err
	}
	return differencesOf(tree, verdict.Object), nil
}

// trial is the creation of a differing child in a dry run.
type trial struct {
	// object to be created, under a name that the API server chooses.
	object map[string]any
	// differences that the child would have to lose, in this version of it.
	differences     differences
	resourceVersion string
	// dropped reports whether these are fields that the API server has dropped: then the child is left alone if the trial is refused.
	dropped bool
}

// newTrial returns the trial of a child.
func newTrial(created map[string]any, child object, differs differences) *trial {
	object := maps.Clone(created)
	metadata := maps.Clone(created["metadata"].(map[string]any))
	delete(metadata, "name")
	metadata["generateName"] = child.GetName() + "-"
	object["metadata"] = metadata
	return &trial{object, differs, child.GetResourceVersion(), differs.areDropped(child.GetGeneration())}
}

// futile reports whether the object that the dry run returned differs as the child does: a recreation changes nothing.
func (t *trial) futile(created map[string]any, update merger) (bool, error) {
	verdict, err := update(created, t.object)
	if err != nil {
		return false, err
	}
	return t.differences.within(differencesOf(created, verdict.Object)), nil
}
