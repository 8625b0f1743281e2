// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"errors"
)

// finder finds what phases have left in caches, and in this process, whatever is known of the phases.
type finder interface {
	// found are the phases of ActionSets of that name, of whatever UID, of which something is there.
	found(namespace, name string) []ID
	// remove removes it.
	remove(ctx context.Context, id ID) error
}

// Found returns the phases of ActionSets of that name, of whatever UID, of which caches show something that Cancel would remove. It
// asks nobody.
func (f *Functions) Found(namespace, name string) (ids []ID) {
	for _, left := range f.left {
		ids = append(ids, left.found(namespace, name)...)
	}
	return ids
}

// Remove removes what caches show of the phase.
func (f *Functions) Remove(ctx context.Context, id ID) error {
	var errs []error
	for _, left := range f.left {
		errs = append(errs, left.remove(ctx, id))
	}
	return errors.Join(errs...)
}
