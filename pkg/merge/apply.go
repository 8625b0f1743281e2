// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
)

// AppliedHashAnnotation is the annotation of a child with a hash of what server-side apply has applied last. It shows that nothing has to be applied, in
// another process too, without the managedFields, which no cache holds.
const AppliedHashAnnotation = "millwright.dev/applied-hash"

// Apply reports how an observed object differs from what is desired, for a client that writes by server-side apply: the API server merges, and
// removes what the same manager has applied before. Object is what the merge is expected to give; it is for comparison only. Errors are as of [Update].
//
// An object that dynamic apply has written last is compared by its record, as by [Update], so that a change of the strategy alone is no difference.
func Apply(observed, desired map[string]any) (Verdict, error) {
	record, hash, err := recordsOf(observed)
	if err != nil {
		return Verdict{}, err
	}
	if record != "" {
		verdict, err := Update(observed, desired)
		verdict.Switched = verdict.Differs
		return verdict, err
	}
	if err := checkMetadata(desired); err != nil {
		return Verdict{}, fmt.Errorf("merging the desired object: %w", err)
	}
	wanted, err := appliedHash(desired)
	if err != nil {
		return Verdict{}, fmt.Errorf("merging the desired object: %w", err)
	}
	merged, differs := mergeObject(putBack, observed, nil, desired)
	return Verdict{
		Object:         merged,
		Differs:        differs || hash != wanted,
		DesiredChanged: hash != wanted,
		RecordOnly:     !differs && hash != wanted,
		MayRemove:      hash != wanted,
		Unrecorded:     hash == "",
	}, nil
}

// WithAppliedHash returns a desired object for server-side apply: with its hash, and without what the API server sets. Like [WithLastApplied] it must be
// called before anything is added that the hook did not desire. The tree is not changed; the result shares subtrees with it.
func WithAppliedHash(desired map[string]any) (map[string]any, error) {
	if err := checkMetadata(desired); err != nil {
		return nil, fmt.Errorf("hashing the desired object: %w", err)
	}
	hash, err := appliedHash(desired)
	if err != nil {
		return nil, fmt.Errorf("hashing the desired object: %w", err)
	}
	applied := maps.Clone(desired)
	delete(applied, "status")
	setRecord(applied, AppliedHashAnnotation, hash)
	return applied, nil
}

// hashSize is the number of bytes of an applied hash: two desired objects never have the same by accident.
const hashSize = 16

// appliedHash returns the hash of all that a desired object can change.
func appliedHash(desired map[string]any) (string, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	if err := e.encode(putBack, desired, 0); err != nil {
		return "", err
	}
	sum := sha256.Sum256(e.text)
	return hex.EncodeToString(sum[:hashSize]), nil
}
