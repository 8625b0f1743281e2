// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import "sync"

// rememberedBytes is how much JSON may be remembered in each of two halves. With what it was decoded to it takes about four times as
// much memory.
const rememberedBytes = 4 << 20

// decodedCache remembers what JSON was decoded to, so that an event that comes to a hundred watches is decoded once, and a list decodes what
// it has not decoded before. It knows nothing of what there is: that has always just come in.
type decodedCache[T any, P object[T]] struct {
	mu sync.Mutex
	// recent has, by their JSON, objects that are never changed: those that were remembered or asked for last. When it is full it becomes
	// older, and what was older is forgotten.
	recent, older map[string]P
	bytes         int // of the JSON of recent
}

// copy copies what that JSON was decoded to, if it is remembered.
func (d *decodedCache[T, P]) copy(text []byte, into P) bool {
	object := d.find(text)
	if object == nil {
		return false
	}
	object.DeepCopyInto(into)
	return true
}

func (d *decodedCache[T, P]) find(text []byte) P {
	d.mu.Lock()
	defer d.mu.Unlock()
	object := d.recent[string(text)]
	if object != nil {
		return object
	}
	if object = d.older[string(text)]; object != nil {
		d.add(text, object)
	}
	return object
}

// remember remembers a copy of what that JSON was decoded to.
func (d *decodedCache[T, P]) remember(text []byte, object P) {
	remembered := P(new(T))
	object.DeepCopyInto(remembered)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(text, remembered)
}

func (d *decodedCache[T, P]) add(text []byte, object P) {
	if d.recent == nil || d.bytes+len(text) > rememberedBytes {
		d.recent, d.older, d.bytes = map[string]P{}, d.recent, 0
	}
	if _, found := d.recent[string(text)]; !found {
		d.bytes += len(text)
	}
	d.recent[string(text)] = object
}
