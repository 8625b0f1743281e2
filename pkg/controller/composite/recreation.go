// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"millwright.dev/pkg/merge"
)

// A child with the method Recreate that differs, though the same was applied to it as is desired now, was edited, or the API server (its
// defaults, its admission) never took it as it is desired. Created again, the one would be as desired, and the other as it is. The child
// itself shows which it is, so that a restart decides no differently: a generation of 1 is that of an object whose spec was not edited.
// What the generation does not show (labels, annotations, kinds without a generation, a spec that was edited somewhere else) is seen in a
// dry run, which creates the child under another name.

// createdGeneration is the metadata.generation of an object as it was created. Kinds without a generation have 0.
const createdGeneration = 1

// differences are the fields in which an object is not as desired, by their paths, with a hash of what is there.
type differences map[string]uint64

// differencesOf an observed object, by what merge makes of it.
func differencesOf(observed, merged map[string]any) differences {
	d := differences{}
	for _, key := range keysOf(observed, merged) {
		d.find("."+key, observed[key], merged[key])
	}
	return d
}

// find differences at and below a path. The elements of two lists are compared in pairs if there are as many.
func (d differences) find(path string, observed, merged any) {
	switch merged := merged.(type) {
	case map[string]any:
		if observed, ok := observed.(map[string]any); ok {
			for _, key := range keysOf(observed, merged) {
				if path != ".metadata.annotations" || key != merge.LastAppliedAnnotation {
					d.find(path+"."+key, observed[key], merged[key])
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
		d[path] = hashOf(observed)
	}
}

func keysOf(a, b map[string]any) []string {
	all := maps.Clone(b)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, a)
	return slices.Sorted(maps.Keys(all))
}

// sinceCreation leaves out what was so when the object was created, by its generation.
func (d differences) sinceCreation(generation int64) differences {
	if generation != createdGeneration {
		return d
	}
	d = maps.Clone(d)
	maps.DeleteFunc(d, func(path string, _ uint64) bool { return !strings.HasPrefix(path, ".metadata.") })
	return d
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

// hash of differences, for the memory of a process.
func (d differences) hash() uint64 {
	tree := make(map[string]any, len(d))
	for path, value := range d {
		tree[path] = int64(value)
	}
	return hashOf(tree)
}

// trial is the creation, in a dry run, of a child that differs.
type trial struct {
	// object to be created, under a name that the API server chooses.
	object map[string]any
	// differences that the child would have to lose, in this version of it.
	differences     differences
	resourceVersion string
}

// newTrial of a child that has the name.
func newTrial(created map[string]any, name, resourceVersion string, differs differences) *trial {
	object := maps.Clone(created)
	metadata := maps.Clone(created["metadata"].(map[string]any))
	delete(metadata, "name")
	metadata["generateName"] = name + "-"
	object["metadata"] = metadata
	return &trial{object, differs, resourceVersion}
}

// futile reports whether the object that the dry run returned differs as the child does: to create the child again changes nothing.
func (t *trial) futile(created map[string]any, update merger) (bool, error) {
	verdict, err := update(created, t.object)
	if err != nil {
		return false, err
	}
	return t.differences.within(differencesOf(created, verdict.Object)), nil
}
