// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fields are the fields of a parent whose changes make a new revision, each as the names on the way to it.
type Fields [][]string

// ParseFields parses fields that are given as names joined by dots. Without any the field is spec.
func ParseFields(paths []string) (Fields, error) {
	if len(paths) == 0 {
		paths = []string{"spec"}
	}
	fields := make(Fields, len(paths))
	for i, path := range paths {
		if fields[i] = strings.Split(path, "."); slices.Contains(fields[i], "") {
			return nil, fmt.Errorf("invalid field path %q: must be names joined by dots, such as spec.template", path)
		}
		if changesByItself(fields[i]) {
			return nil, fmt.Errorf("invalid field path %q: the API server or the rolling update itself changes it, so that each change makes another revision: "+
				"use fields of spec, metadata.labels or metadata.annotations", path)
		}
	}
	return fields, nil
}

// changesByItself reports whether a field of a parent changes although its users change nothing.
func changesByItself(path []string) bool {
	switch path[0] {
	case "status":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations"
	default:
		return false
	}
}

// errNoObject is the error of a path on which something is not an object.
var errNoObject = errors.New("is not an object")

// Patch returns the fields of a parent. A field that the parent lacks is null. The result shares trees with the parent.
func (f Fields) Patch(parent map[string]any) (map[string]any, error) {
	patch := map[string]any{}
	for _, path := range f {
		value, _, err := get(parent, path)
		if err != nil {
			return nil, err
		}
		// An earlier path may have put an object of the parent there.
		if patch, err = set(patch, path, value); err != nil {
			return nil, err
		}
	}
	return patch, nil
}

// Apply returns a parent with the fields of a patch. A field that is null in the patch is removed; one that is not in the patch is kept. Nothing that the
// parent consists of is changed; the result shares trees with both.
func (f Fields) Apply(parent, patch map[string]any) (map[string]any, error) {
	applied := parent
	for _, path := range f {
		value, found, err := get(patch, path)
		if err == nil && found {
			if value == nil {
				applied, err = remove(applied, path)
			} else {
				applied, err = set(applied, path, value)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return applied, nil
}

// get returns the value at a path, and whether there is one.
func get(tree map[string]any, path []string) (value any, found bool, err error) {
	value = tree
	for i, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false, notObject(path[:i])
		}
		if value, found = object[name]; !found || value == nil && i < len(path)-1 {
			return nil, false, nil
		}
	}
	return value, true, nil
}

// set returns a copy of a tree with a value at a path.
func set(tree map[string]any, path []string, value any) (map[string]any, error) {
	changed := maps.Clone(tree)
	if changed == nil {
		changed = map[string]any{}
	}
	if len(path) == 1 {
		changed[path[0]] = value
		return changed, nil
	}
	below, ok := changed[path[0]].(map[string]any)
	if !ok && changed[path[0]] != nil {
		return nil, notObject(path[:1])
	}
	below, err := set(below, path[1:], value)
	changed[path[0]] = below
	return changed, err
}

// remove returns a copy of a tree without the value at a path.
func remove(tree map[string]any, path []string) (map[string]any, error) {
	if _, found := tree[path[0]]; !found {
		return tree, nil
	}
	changed := maps.Clone(tree)
	if len(path) == 1 {
		delete(changed, path[0])
		return changed, nil
	}
	if changed[path[0]] == nil {
		return tree, nil
	}
	below, ok := changed[path[0]].(map[string]any)
	if !ok {
		return nil, notObject(path[:1])
	}
	below, err := remove(below, path[1:])
	changed[path[0]] = below
	return changed, err
}

func notObject(path []string) error { return fmt.Errorf("%s %w", strings.Join(path, "."), errNoObject) }

// encode returns a patch as JSON: the text that is recorded, and that the name of the record is a hash of. Its keys are sorted.
func encode(patch map[string]any) ([]byte, error) { return json.Marshal(patch) }
