// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
)

// drift returns the paths of the fields that the desired apply configuration sets and that differ in the object or are missing there.
// Further fields of the object, which the API server has defaulted or another client has set, are no drift.
//
// An apply configuration has the fields of its object under the same names, as pointers that are nil if it does not set them.
//
// The typed values of structured-merge-diff, with the converter of client-go's apply configurations, could be compared instead, in half the lines.
// But they compare quantities as text, so that 1000m differs from 1, and one comparison takes 867 µs and 563 allocations instead of 55 µs and 75.
func drift(desired, object any) []string {
	paths := differences(reflect.ValueOf(desired), reflect.ValueOf(object), "")
	for i, path := range paths {
		paths[i] = strings.TrimPrefix(path, ".")
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	// typeMetaType is not compared: objects from a cache have none.
	typeMetaType = reflect.TypeFor[metaapply.TypeMetaApplyConfiguration]()
)

// differences returns the paths at which the two values differ, relative to the values. The name is that of their field.
func differences(want, have reflect.Value, name string) []string {
	for want.Kind() == reflect.Pointer {
		if want.IsNil() {
			return nil
		}
		want = want.Elem()
	}
	for have.Kind() == reflect.Pointer {
		if have.IsNil() {
			return []string{""}
		}
		have = have.Elem()
	}
	switch {
	case want.Type() == typeMetaType:
		return nil
	case want.Type() == quantityType:
		return differentQuantity(want.Interface().(resource.Quantity), have.Interface().(resource.Quantity))
	}
	switch want.Kind() {
	case reflect.Struct:
		return differentFields(want, have)
	case reflect.Map:
		return differentEntries(want, have, name == "selector")
	case reflect.Slice:
		return differentItems(want, have)
	default:
		if !want.Equal(have) {
			return []string{""}
		}
		return nil
	}
}

func differentFields(want, have reflect.Value) (paths []string) {
	for i, pair := range pairsOf(want.Type(), have.Type()) {
		field := want.Field(i)
		if field.IsZero() {
			continue // not set
		}
		counterpart := have
		if pair.index != nil {
			counterpart = have.FieldByIndex(pair.index)
		}
		below := differences(field, counterpart, pair.name)
		if pair.name != "" {
			below = prefixed("."+pair.name, below)
		}
		paths = append(paths, below...)
	}
	return paths
}

// pair is a field of an apply configuration and its counterpart in the object. An embedded one has no index: its fields are promoted in
// both.
type pair struct {
	name  string // in JSON
	index []int
}

// pairs are known by the types of both.
var pairs sync.Map

func pairsOf(want, have reflect.Type) []pair {
	types := [2]reflect.Type{want, have}
	if known, ok := pairs.Load(types); ok {
		return known.([]pair)
	}
	found := make([]pair, want.NumField())
	for i := range found {
		field := want.Field(i)
		found[i].name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
		if !field.Anonymous {
			counterpart, ok := have.FieldByName(field.Name)
			if !ok {
				panic(fmt.Sprintf("%s has no field %s, which %s has", have, field.Name, want)) // one is generated from the other
			}
			found[i].index = counterpart.Index
		}
	}
	pairs.Store(types, found)
	return found
}

// differentEntries returns the differences of two maps. The selector of a Service is atomic: one more label selects other Pods.
func differentEntries(want, have reflect.Value, atomic bool) (paths []string) {
	for entries := want.MapRange(); entries.Next(); {
		key := "." + entries.Key().String()
		if value := have.MapIndex(entries.Key()); value.IsValid() {
			paths = append(paths, prefixed(key, differences(entries.Value(), value, ""))...)
		} else {
			paths = append(paths, key)
		}
	}
	if atomic && (have.Len() > want.Len() || len(paths) > 0) {
		return []string{""}
	}
	return paths
}

// differentItems returns the differences of two lists: structs are matched by the keys of server-side apply, other items by position.
func differentItems(want, have reflect.Value) (paths []string) {
	for i := range want.Len() {
		item, key := want.Index(i), fmt.Sprintf("[%d]", i)
		found := i
		if item.Kind() == reflect.Struct {
			if itemKey := keyOf(item); itemKey != "" {
				key, found = itemKey, -1
				for j := 0; j < have.Len() && found < 0; j++ {
					if keyOf(have.Index(j)) == itemKey {
						found = j
					}
				}
			}
		}
		if found < 0 || found >= have.Len() {
			paths = append(paths, key)
		} else {
			paths = append(paths, prefixed(key, differences(item, have.Index(found), ""))...)
		}
	}
	return paths
}

// keyOf returns the key of a list's item, as text to append to the list's path; empty if it has none.
func keyOf(item reflect.Value) string {
	field := func(name string) string {
		value := item.FieldByName(name)
		for value.IsValid() && value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if !value.IsValid() {
			return ""
		}
		return fmt.Sprint(value.Interface())
	}
	if port := cmp.Or(field("ContainerPort"), field("Port")); port != "" {
		return "[" + port + "/" + field("Protocol") + "]"
	}
	if key := cmp.Or(field("UID"), field("Name")); key != "" {
		return "[" + key + "]"
	}
	return ""
}

// differentQuantity compares quantities as numbers, rounded up to thousandths as the API server does.
func differentQuantity(want, have resource.Quantity) []string {
	want = want.DeepCopy()
	want.RoundUp(resource.Milli)
	if want.Cmp(have) != 0 {
		return []string{""}
	}
	return nil
}

func prefixed(prefix string, paths []string) []string {
	for i := range paths {
		paths[i] = prefix + paths[i]
	}
	return paths
}
