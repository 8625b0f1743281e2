// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The managedFields of an object are read in the form that the API server stores: fieldsV1 is a tree in which "f:" is a member of an object, "k:" an
// element of a list by its keys, "v:" an element of a set, "." the object or element itself, and {} a leaf.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/.

// UpdateOwned is an [Update] of an object that server-side apply has written last. Of the observed object, which has its managedFields, the fields that
// the manager has applied and that are desired no more are removed, too. The result has no managedFields: an update without them keeps them.
func UpdateOwned(observed, desired map[string]any, manager string) (map[string]any, error) {
	before, _, err := recordsOf(observed)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(desired); err != nil {
		return nil, fmt.Errorf("merging the desired object: %w", err)
	}
	applied, after, err := compareApplied(before, desired)
	if err != nil {
		return nil, fmt.Errorf("merging the desired object: %w", err)
	}
	merged, _ := mergeObject(putBack, observed, applied.tree, desired)
	merged, _ = mergeObject(putBack, merged, owned(observed, manager), desired)
	merged = maps.Clone(merged)
	annotate(merged, after)
	delete(merged["metadata"].(map[string]any), "managedFields")
	return merged, nil
}

// RemovesOwned reports whether an observed object, which has its managedFields, has a field that the manager has applied and that is desired no more.
func RemovesOwned(observed, desired map[string]any, manager string) bool {
	_, removes := mergeObject(putBack, observed, owned(observed, manager), desired)
	return removes
}

// TakeOver returns the metadata of a JSON merge patch (RFC 7386) that prepares an observed object, which has its managedFields, for its first server-side
// apply after dynamic apply: the hash of its record takes the place of the record, and the manager gets the fields that the record has from all that have
// written them by updates. So its next apply removes what is not desired any more, as dynamic apply does. No value changes.
func TakeOver(observed map[string]any, manager string) (map[string]any, error) {
	before, _, err := recordsOf(observed)
	if err != nil {
		return nil, err
	}
	annotations := map[string]any{LastAppliedAnnotation: nil}
	metadata := map[string]any{"annotations": annotations}
	record, err := parse(before)
	if err != nil {
		return metadata, nil // nothing is known of what was applied
	}
	if annotations[AppliedHashAnnotation], err = appliedHash(record); err != nil {
		return nil, fmt.Errorf("hashing the record of what was applied last: %w", err)
	}
	delete(record, "status") // it is not applied, and may be of another client
	if entries := takenOver(entriesOf(observed), observed["apiVersion"], record, manager); entries != nil {
		metadata["managedFields"] = entries
	}
	return metadata, nil
}

// takenOver returns managedFields in which the manager has what was written of a record by updates; nil if nothing was. Fields of another version of the
// API than those of the manager stay where they are. If it has none yet, it gets those of the version that is written now, if there are any.
func takenOver(entries []map[string]any, version any, record map[string]any, manager string) (after []map[string]any) {
	owns := isApplied(manager)
	var own map[string]any // of the manager, or the first that was taken
	taken := map[string]any{}
	if at := slices.IndexFunc(entries, owns); at >= 0 {
		own = entries[at]
	} else if at := slices.IndexFunc(entries, func(entry map[string]any) bool {
		within, _ := split(fieldsOf(entry), record)
		return isUpdated(entry) && entry["apiVersion"] == version && len(within) > 0
	}); at >= 0 {
		own = entries[at]
	}
	for _, entry := range entries {
		if owns(entry) {
			continue
		}
		if isUpdated(entry) && (own == nil || entry["apiVersion"] == own["apiVersion"]) {
			within, outside := split(fieldsOf(entry), record)
			if len(within) > 0 && own == nil {
				own = entry
			}
			taken = union(taken, within)
			if len(outside) == 0 {
				continue
			}
			entry = maps.Clone(entry)
			entry["fieldsV1"] = outside
		}
		after = append(after, entry)
	}
	if len(taken) == 0 {
		return nil
	}
	if owns(own) {
		taken = union(fieldsOf(own), taken)
	}
	own = maps.Clone(own)
	own["manager"], own["operation"], own["fieldsV1"] = manager, "Apply", taken
	return append(after, own)
}

// entriesOf returns the managedFields of an object.
func entriesOf(observed map[string]any) (entries []map[string]any) {
	metadata, _ := observed["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	for _, element := range list {
		if entry, ok := element.(map[string]any); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// owned returns the part of an object that a manager has applied and no other manager has, too, without the records.
func owned(observed map[string]any, manager string) map[string]any {
	var own, others map[string]any
	for _, entry := range entriesOf(observed) {
		if isApplied(manager)(entry) {
			own = fieldsOf(entry)
		} else {
			others = union(others, fieldsOf(entry))
		}
	}
	if len(own) == 0 {
		return nil
	}
	part, _ := ownedPart(observed, own, others).(map[string]any)
	return withoutRecords(part)
}

// withoutRecords returns an object without the records, and without annotations if it has no others. The object is not changed.
func withoutRecords(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	annotations := maps.Clone(annotationsOf(metadata))
	for _, record := range records.kept {
		delete(annotations, record)
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	switch {
	case metadata == nil:
		return object
	case len(annotations) == 0:
		delete(metadata, "annotations")
	default:
		metadata["annotations"] = annotations
	}
	object["metadata"] = metadata
	return object
}

// isApplied matches the entry of what a manager has applied. Of each manager there is one.
func isApplied(manager string) func(map[string]any) bool {
	return func(entry map[string]any) bool {
		return entry["manager"] == manager && entry["operation"] == "Apply" && !ofSubresource(entry)
	}
}

// isUpdated matches an entry of what was written by updates.
func isUpdated(entry map[string]any) bool {
	return entry["operation"] == "Update" && !ofSubresource(entry)
}

func ofSubresource(entry map[string]any) bool {
	subresource, _ := entry["subresource"].(string)
	return subresource != ""
}

func fieldsOf(entry map[string]any) map[string]any {
	fields, _ := entry["fieldsV1"].(map[string]any)
	return fields
}

// ownedPart returns the part of a value that the fields of a manager are of, without what others have, too; nil for nothing. A leaf is the whole value,
// unless others have parts of it: then it was applied as an empty object or list.
func ownedPart(value any, fields, others map[string]any) any {
	if len(fields) == 0 {
		if others != nil {
			return nil
		}
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := map[string]any{}
		for step := range fields {
			name, isMember := strings.CutPrefix(step, "f:")
			inner, found := value[name]
			if !isMember || !found {
				continue
			}
			if mine := ownedPart(inner, inside(fields, step), inside(others, step)); mine != nil {
				part[name] = mine
			}
		}
		if len(part) == 0 {
			return nil
		}
		return part
	case []any:
		var part []any
		for _, element := range value {
			for step := range fields {
				if !isElement(element, step) {
					continue
				}
				if mine := ownedElement(element, step, inside(fields, step), inside(others, step)); mine != nil {
					part = append(part, mine)
				}
				break
			}
		}
		if part == nil {
			return nil
		}
		return part
	}
	return value
}

// ownedElement is the ownedPart of an element of a list. It has the fields by which elements are found.
func ownedElement(element any, step string, fields, others map[string]any) any {
	mine := ownedPart(element, fields, others)
	whole, isObject := element.(map[string]any)
	if !isObject || mine == nil && others != nil {
		return mine
	}
	object := map[string]any{} // no part is the element itself, of which the manager has no field
	part, _ := mine.(map[string]any)
	maps.Copy(object, part)
	maps.Copy(object, keysOf(step))
	for _, key := range mapKeys {
		if value, found := whole[key]; found {
			object[key] = value
		}
	}
	return object
}

// inside returns the fields that are one step below others; nil if none are, and empty for a leaf.
func inside(fields map[string]any, step string) map[string]any {
	inner, _ := fields[step].(map[string]any)
	return inner
}

// split returns those of the fields that a value has, and the others.
func split(fields map[string]any, value any) (within, outside map[string]any) {
	within, outside = map[string]any{}, map[string]any{}
	for step, below := range fields {
		inner, found := at(value, step)
		below, _ := below.(map[string]any)
		switch {
		case !found:
			outside[step] = below
		case len(below) == 0:
			within[step] = below
		default:
			in, out := split(below, inner)
			if len(in) > 0 {
				within[step] = in
			}
			if len(out) > 0 {
				outside[step] = out
			}
		}
	}
	return within, outside
}

// at returns the part of a value that is one step below it, and whether there is one.
func at(value any, step string) (any, bool) {
	if step == "." {
		return value, true
	}
	switch value := value.(type) {
	case map[string]any:
		name, isMember := strings.CutPrefix(step, "f:")
		inner, found := value[name]
		return inner, isMember && found
	case []any:
		for _, element := range value {
			if isElement(element, step) {
				return element, true
			}
		}
	}
	return nil, false
}

// isElement reports whether a step leads to an element of a list. An element may lack some of the keys, which the API server sets to
// their defaults.
func isElement(element any, step string) bool {
	if keys := keysOf(step); keys != nil {
		object, ok := element.(map[string]any)
		if !ok {
			return false
		}
		matched := false
		for key, want := range keys {
			have, found := object[key]
			if key == protocol && !found {
				have, found = defaultProtocol, true
			}
			if found && !matches(have, want) {
				return false
			}
			matched = matched || found && key != protocol
		}
		return matched
	}
	text, isValue := strings.CutPrefix(step, "v:")
	if !isValue {
		return false
	}
	var want any
	return unmarshal(text, &want) == nil && matches(element, want)
}

// keysOf returns the keys of a step to an element of a list; nil for another step.
func keysOf(step string) (keys map[string]any) {
	text, isKeyed := strings.CutPrefix(step, "k:")
	if !isKeyed || unmarshal(text, &keys) != nil {
		return nil
	}
	return keys
}

// unmarshal decodes numbers as in trees.
func unmarshal(text string, into any) error { return utiljson.Unmarshal([]byte(text), into) }

// union returns the fields of both.
func union(a, b map[string]any) map[string]any {
	all := make(map[string]any, len(a)+len(b))
	maps.Copy(all, a)
	for step, below := range b {
		was, _ := all[step].(map[string]any)
		is, _ := below.(map[string]any)
		all[step] = union(was, is)
	}
	return all
}
