// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"bytes"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// LastAppliedAnnotation is the annotation of a child with what was applied to it last, as JSON. The name is Metacontroller's.
const LastAppliedAnnotation = "metacontroller.k8s.io/last-applied-configuration"

// notRecorded is what the record leaves out: owner references, and the records.
var notRecorded = &level{below: map[string]*level{"metadata": {
	kept:  []string{"ownerReferences"},
	below: map[string]*level{"annotations": records},
}}}

// lastApplied is what the annotation of an observed object holds.
type lastApplied struct {
	// tree is nil if nothing was applied, and also if exactly what is desired was: then the merge has nothing to remove, and
	// its lists have no elements that the desired lists do not have too.
	tree map[string]any
	// unreadable is why the annotation could not be read.
	unreadable error
}

// compareApplied reads the record of an observed object and returns the new one. The record is kept, byte for byte, as long as its content is
// what is desired: so a change of the engine, or another encoding of the same JSON, makes no write. Fields that are put back do not count,
// so that a hook that returns observed objects does not cause a write for each new resourceVersion.
func compareApplied(before string, desired map[string]any) (applied lastApplied, after string, err error) {
	wanted := encoders.Get().(*encoder)
	defer wanted.release()
	if err := wanted.encode(notRecorded, desired, 0); err != nil {
		return lastApplied{}, "", err
	}
	if string(wanted.text) == before {
		return lastApplied{}, before, nil
	}
	after = string(wanted.text)
	if applied.tree, applied.unreadable = parse(before); applied.tree == nil {
		return applied, after, nil
	}
	recorded := encoders.Get().(*encoder)
	defer recorded.release()
	wanted.text = wanted.text[:0]
	if err := errors.Join(wanted.encode(putBack, desired, 0), recorded.encode(putBack, applied.tree, 0)); err != nil {
		return lastApplied{}, "", err
	}
	if bytes.Equal(wanted.text, recorded.text) {
		return lastApplied{}, before, nil
	}
	return applied, after, nil
}

// parse reads a record. If it is missing or null, nothing was applied.
func parse(text string) (tree map[string]any, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w", LastAppliedAnnotation, err)
	}
	return tree, nil
}

// record returns the record of a desired object.
func record(desired map[string]any) (string, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	err := e.encode(notRecorded, desired, 0)
	return string(e.text), err
}
