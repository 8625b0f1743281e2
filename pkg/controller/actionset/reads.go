// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

// reads are the Secrets, ConfigMaps and Profiles that were read for the asks of one decision. One that is named often is read once. They are not kept
// for the next decision, because a phase may have changed them.
type reads struct {
	results map[readKey]readResult
	// size of the results in bytes.
	size int
	// total is the size of all that was read for the decision, in bytes. check, if any, is called with it after each read, and its error is returned.
	total int
	check func(total int) error
}

// add counts something that was read, of this size in bytes.
func (r *reads) add(size int) error {
	r.total += size
	if r.check == nil {
		return nil
	}
	return r.check(r.total)
}

// admit checks what was read before it is decoded and counted. It takes this much memory, in bytes.
func (r *reads) admit(memory int) error {
	if r.check == nil {
		return nil
	}
	return r.check(r.total + memory)
}

// readKey identifies what was read.
type readKey struct{ kind, namespace, name string }

type readResult struct {
	object any
	err    error
}

// readOnce returns the result of read, which it calls unless the result is known. If the results would have more than maxInputBytes, it forgets the
// others.
func readOnce[T any](r *reads, key readKey, read func() (*T, error)) (*T, error) {
	if known, ok := r.results[key]; ok {
		return known.object.(*T), known.err
	}
	object, err := read()
	size := 0
	if err == nil {
		size = memoryOf(object)
		if err := r.add(size); err != nil {
			return nil, err
		}
	}
	if r.results == nil || r.size+size > maxInputBytes {
		r.results, r.size = map[readKey]readResult{}, 0
	}
	r.results[key] = readResult{object, err}
	r.size += size
	return object, err
}

// memoryOf returns about how much memory an object takes, in bytes. Each Profile has a copy of its credentials.
func memoryOf(object any) int {
	if sized, ok := object.(interface{ Size() int }); ok {
		return sized.Size()
	}
	return sizeOf(object)
}
