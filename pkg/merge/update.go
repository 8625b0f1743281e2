// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"maps"
)

// records are the annotations of both strategies, which no desired object changes.
var records = &level{kept: []string{LastAppliedAnnotation, AppliedHashAnnotation}}

// IsRecord reports whether an annotation is the record of what was applied last, by either strategy.
func IsRecord(annotation string) bool { return records.keeps(annotation) }

// putBack is what a desired object never changes: fields that the system sets, name and namespace, its owners, its status, and the record of
// what was applied.
var putBack = &level{
	kept: []string{"status"},
	below: map[string]*level{"metadata": {
		kept: []string{
			"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
			"deletionGracePeriodSeconds", "managedFields", "ownerReferences", "selfLink",
		},
		below: map[string]*level{"annotations": records},
	}},
}

// Verdict is the result of a merge into an observed object.
type Verdict struct {
	// Object is the observed object with what is desired, ready to be written with the observed resourceVersion. It is the observed tree
	// itself if nothing differs. It shares subtrees with the inputs: it must not be changed.
	Object map[string]any
	// Differs reports whether Object has anything that the observed object has not, or lacks anything.
	Differs bool
	// DesiredChanged reports whether something else is desired than was applied last. If not, and Differs, then another client
	// has changed the object, or the API server does not store it as desired.
	DesiredChanged bool
	// RecordOnly reports whether only the record of what was applied differs, for instance because an object was already as desired when it was
	// adopted. Recreating it would be useless; an update in place is enough.
	RecordOnly bool
	// Unrecorded reports whether nothing is known of what was applied last. So it is not known either whether that is what is desired.
	Unrecorded bool
	// MayRemove reports whether something else may have been applied last by server-side apply, so that the object may have fields that are desired no
	// more. Only the managedFields show it: [RemovesOwned] finds out.
	MayRemove bool
	// Switched reports whether the other strategy has written the object last, or may have. What it has written and is desired no more is known by the
	// managedFields only: [UpdateOwned] or [TakeOver] finds it.
	Switched bool
	// Unreadable is why the record of what was applied last could not be read, nil if it could. Such a record is replaced;
	// what it may have held and is desired no more stays in the object.
	Unreadable error
}

// Update merges the desired fields into an observed object. Neither tree is changed. Both are trees of apimachinery's JSON decoder, with
// numbers as int64 or float64.
//
// An error names the field of the metadata that cannot be merged. It is permanent: the same trees give the same one. A field
// that is desired with another type than it has is a difference like any other.
func Update(observed, desired map[string]any) (Verdict, error) {
	before, hash, err := recordsOf(observed)
	if err != nil {
		return Verdict{}, err
	}
	if err := checkMetadata(desired); err != nil {
		return Verdict{}, fmt.Errorf("merging the desired object: %w", err)
	}
	applied, after, err := compareApplied(before, desired)
	if err != nil {
		return Verdict{}, fmt.Errorf("merging the desired object: %w", err)
	}
	merged, differs := mergeObject(putBack, observed, applied.tree, desired)
	verdict := Verdict{Object: merged, Differs: differs, Unreadable: applied.unreadable}
	if after != before {
		if !differs {
			verdict.Object = maps.Clone(observed)
		}
		annotate(verdict.Object, after)
		verdict.Differs, verdict.DesiredChanged, verdict.RecordOnly = true, true, !differs
	}
	if hash == "" {
		// An object without a record may have been written by the server-side apply of another client, Metacontroller say.
		unrecorded := before == ""
		verdict.Unrecorded, verdict.MayRemove, verdict.Switched = unrecorded, unrecorded, unrecorded
		return verdict, nil
	}
	wanted, err := appliedHash(desired)
	if err != nil {
		return Verdict{}, fmt.Errorf("merging the desired object: %w", err)
	}
	if hash == wanted && !differs {
		return Verdict{Object: observed}, nil
	}
	verdict.Differs, verdict.DesiredChanged, verdict.RecordOnly = true, hash != wanted, !differs
	verdict.MayRemove, verdict.Switched = hash != wanted, true
	return verdict, nil
}

// recordsOf returns the annotations of both strategies, "" for one that the object does not have.
func recordsOf(observed map[string]any) (lastApplied, hash string, err error) {
	metadata, ok := observed["metadata"].(map[string]any)
	if !ok {
		return "", "", fmt.Errorf("merging into the observed object: its metadata is %s, not an object", kindOf(observed["metadata"]))
	}
	annotations := annotationsOf(metadata)
	lastApplied, _ = annotations[LastAppliedAnnotation].(string)
	hash, _ = annotations[AppliedHashAnnotation].(string)
	return lastApplied, hash, nil
}

// WithLastApplied returns a desired object for its creation: with the record of what is applied, which later merges need. It must be called
// before anything is added that the hook did not desire, in particular the owner reference. The tree is not changed; the result shares
// subtrees with it. An error names the field that cannot be recorded.
func WithLastApplied(desired map[string]any) (map[string]any, error) {
	if err := checkMetadata(desired); err != nil {
		return nil, fmt.Errorf("recording the desired object: %w", err)
	}
	text, err := record(desired)
	if err != nil {
		return nil, fmt.Errorf("recording the desired object: %w", err)
	}
	created := maps.Clone(desired)
	annotate(created, text)
	return created, nil
}

// checkMetadata refuses metadata that the API server would refuse, or that would hide the record of what was applied.
func checkMetadata(desired map[string]any) error {
	metadata, ok := desired["metadata"].(map[string]any)
	if !ok {
		return &fieldError{steps: []string{"metadata"}, problem: "this is " + kindOf(desired["metadata"]) + ", and must be an object"}
	}
	annotations := metadata["annotations"]
	if annotations == nil {
		return nil
	}
	if _, ok := annotations.(map[string]any); !ok {
		return &fieldError{steps: []string{"metadata.annotations"}, problem: "this is " + kindOf(annotations) + ", and must be an object"}
	}
	for key, value := range annotations.(map[string]any) {
		if _, ok := value.(string); !ok {
			return &fieldError{steps: []string{"[" + key + "]", "metadata.annotations"}, problem: "this is " + kindOf(value) + ", and annotations are strings"}
		}
	}
	return nil
}

func annotationsOf(metadata map[string]any) map[string]any {
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

// annotate sets the record in a tree that is ours at its root, and shares what is below.
func annotate(object map[string]any, text string) { setRecord(object, LastAppliedAnnotation, text) }

// setRecord sets the annotation of one strategy, and removes that of the other one.
func setRecord(object map[string]any, key, value string) {
	metadata := maps.Clone(object["metadata"].(map[string]any))
	annotations := make(map[string]any, len(annotationsOf(metadata))+1)
	maps.Copy(annotations, annotationsOf(metadata))
	for _, record := range records.kept {
		delete(annotations, record)
	}
	annotations[key] = value
	metadata["annotations"] = annotations
	object["metadata"] = metadata
}
