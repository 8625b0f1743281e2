// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// metacontroller merges as Metacontroller 4.17 does, in the plainest way. It changes what is observed. In one thing it is better: a value of
// another type replaces an object or a list, of which Metacontroller leaves an empty one, or none.
func metacontroller(observed, applied, desired any) any {
	if desired != nil && kindOf(observed) != kindOf(desired) {
		return desired
	}
	switch observed := observed.(type) {
	case map[string]any:
		applied, _ := applied.(map[string]any)
		desired, _ := desired.(map[string]any)
		for key := range applied {
			if _, wanted := desired[key]; !wanted {
				delete(observed, key)
			}
		}
		for key, want := range desired {
			observed[key] = metacontroller(observed[key], applied[key], want)
		}
		return observed
	case []any:
		last, _ := applied.([]any)
		want, ok := desired.([]any)
		key := sharedKey(slices.Concat(observed, last, want))
		if key == "" && ok {
			return want
		}
		if key == "" && len(observed) == 0 {
			return observed // Metacontroller takes the null; here it is met by an empty list
		}
		if key == "" {
			return nil
		}
		byKey := func(list []any) map[string]any {
			object := map[string]any{}
			for _, element := range list {
				object[fmt.Sprint(element.(map[string]any)[key])] = element
			}
			return object
		}
		merged := metacontroller(byKey(observed), byKey(last), byKey(want)).(map[string]any)
		list := []any{}
		for _, element := range slices.Concat(observed, want) {
			name := fmt.Sprint(element.(map[string]any)[key])
			if value, left := merged[name]; left {
				list = append(list, value)
				delete(merged, name)
			}
		}
		return list
	default:
		return desired
	}
}

func sharedKey(elements []any) string {
	for _, key := range []string{"containerPort", "port", "mountPath", "name", "uid", "ip", "path"} {
		if len(elements) > 0 && !slices.ContainsFunc(elements, func(element any) bool {
			object, ok := element.(map[string]any)
			_, has := object[key]
			return !ok || !has
		}) {
			return key
		}
	}
	return ""
}

// hasEqualKeys reports whether a list anywhere in the tree has two elements with one value of a merge key.
func hasEqualKeys(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), hasEqualKeys)
	case []any:
		seen := map[string]bool{}
		for _, element := range value {
			object, _ := element.(map[string]any)
			for _, key := range mapKeys {
				if name, has := object[key]; has {
					id := key + "=" + fmt.Sprint(name)
					if seen[id] {
						return true
					}
					seen[id] = true
				}
			}
		}
		return slices.ContainsFunc(value, hasEqualKeys)
	}
	return false
}

// hasObjectKeys reports whether a merge key of an element anywhere in the tree has an object or a list as its value. These are
// compared whole, so that an element which has gained a member is another one.
func hasObjectKeys(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), hasObjectKeys)
	case []any:
		return slices.ContainsFunc(value, func(element any) bool {
			object, _ := element.(map[string]any)
			return hasObjectKeys(element) || slices.ContainsFunc(mapKeys, func(key string) bool {
				kind := kindOf(object[key])
				return kind == "an object" || kind == "a list"
			})
		})
	}
	return false
}

// seeds makes trees of the bytes of a fuzzer: small ones, with few names and values, so that much of them is alike.
type seeds []byte

func (s *seeds) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := int((*s)[0])
	*s = (*s)[1:]
	return b % n
}

var (
	fuzzKeys    = []string{"name", "port", "protocol", "a", "b", "status", "kind"}
	fuzzScalars = []any{nil, "x", "y", "80", int64(80), int64(1), 1.0, true, "UDP", "TCP", ""}
)

func (s *seeds) value(depth int) any {
	kind := s.next(8)
	switch {
	case kind < 3 && depth > 0:
		return s.object(depth)
	case kind < 6 && depth > 0:
		list := make([]any, s.next(4))
		for i := range list {
			if kind == 5 {
				list[i] = s.value(depth - 1)
				continue
			}
			object := s.object(depth - 1)
			object[fuzzKeys[kind-3]] = fuzzScalars[s.next(6)]
			list[i] = object
		}
		return list
	default:
		return fuzzScalars[s.next(len(fuzzScalars))]
	}
}

func (s *seeds) object(depth int) map[string]any {
	object := map[string]any{}
	for range s.next(4) {
		object[fuzzKeys[s.next(len(fuzzKeys))]] = s.value(depth - 1)
	}
	return object
}

// like returns a copy of the value with some changes.
func (s *seeds) like(value any, depth int) any {
	if s.next(10) == 9 {
		return s.value(depth)
	}
	switch value := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if s.next(6) < 5 {
				object[key] = s.like(value[key], depth-1)
			}
		}
		if s.next(4) == 3 {
			object[fuzzKeys[s.next(len(fuzzKeys))]] = s.value(depth - 1)
		}
		return object
	case []any:
		list := []any{}
		for _, element := range value {
			if s.next(6) < 5 {
				list = append(list, s.like(element, depth-1))
			}
		}
		if s.next(4) == 3 {
			list = append(list, s.like(s.value(depth-1), depth-1))
		}
		return list
	default:
		return runtime.DeepCopyJSONValue(value)
	}
}

// plainly does all that Metacontroller does for an object that needs no update, and reports whether it needs one.
func plainly(observed, desired map[string]any) bool {
	applied, _ := parse(annotationsOf(observed["metadata"].(map[string]any))[LastAppliedAnnotation].(string))
	merged := metacontroller(runtime.DeepCopyJSON(observed), applied, runtime.DeepCopyJSON(desired)).(map[string]any)
	text, _ := json.Marshal(desired)
	annotate(merged, string(text))
	return !reflect.DeepEqual(observed, merged)
}
