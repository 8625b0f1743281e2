// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// GetList implements storage.Interface.
func (s *store) GetList(_ context.Context, key string, options storage.ListOptions, listObject runtime.Object) error {
	key, err := storage.PrepareKey(s.prefix, key, options.Recursive)
	if err != nil {
		return err
	}
	from, begin, err := storage.ValidateListOptions(key, s.versioner, options)
	if err != nil {
		return err
	}
	entries, resourceVersion, err := s.at(uint64(from))
	if err != nil {
		return err
	}
	if options.Predicate.Continue == "" {
		if err := s.notOlder(options.ResourceVersion, resourceVersion); err != nil {
			return err
		}
	}
	keys := sortedKeys(entries, key, options.Recursive)
	if first, _ := slices.BinarySearch(keys, begin); begin != "" {
		keys = keys[first:]
	}
	found, looked := choose(entries, keys, options.Predicate)
	token, remaining := "", (*int64)(nil)
	if looked < len(keys) {
		token, remaining, err = storage.PrepareContinueToken(keys[looked-1], key, int64(resourceVersion), int64(len(keys)), true, options)
		if err != nil {
			return err
		}
	}
	if err := setItems(listObject, found); err != nil {
		return err
	}
	options.Predicate.SetShardInfoOnList(listObject)
	return s.versioner.UpdateList(listObject, resourceVersion, token, remaining)
}

// sortedKeys returns the keys that were asked for, in the order of lists.
func sortedKeys(entries map[string]*entry, asked string, recursive bool) []string {
	keys := slices.Collect(maps.Keys(entries))
	keys = slices.DeleteFunc(keys, func(key string) bool { return !within(key, asked, recursive) })
	slices.Sort(keys)
	return keys
}

// choose returns the entries that match, as many as are wanted, and how many it has looked at.
func choose(entries map[string]*entry, keys []string, predicate storage.SelectionPredicate) (found []*entry, looked int) {
	for looked, key := range keys {
		if predicate.Limit > 0 && int64(len(found)) == predicate.Limit {
			return found, looked
		}
		if entry := entries[key]; matches(predicate, entry) {
			found = append(found, entry)
		}
	}
	return found, len(keys)
}

func matches(predicate storage.SelectionPredicate, entry *entry) bool {
	if entry == nil {
		return false
	}
	matched, err := predicate.Matches(entry.object)
	return err == nil && matched
}

// setItems appends copies of what was found.
func setItems(listObject runtime.Object, found []*entry) error {
	pointer, err := meta.GetItemsPtr(listObject)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(pointer).Elem()
	if items.Kind() != reflect.Slice {
		return fmt.Errorf("a %T has no slice of items", listObject)
	}
	all := reflect.AppendSlice(reflect.MakeSlice(items.Type(), 0, items.Len()+len(found)), items)
	for _, entry := range found {
		all = reflect.Append(all, reflect.ValueOf(entry.object.DeepCopyObject()).Elem())
	}
	items.Set(all)
	return nil
}
