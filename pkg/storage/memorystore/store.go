// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package memorystore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// historyLength is the number of last writes that can be read back and watched from.
const historyLength = 10_000

// store implements storage.Interface.
type store struct {
	prefix    string
	newObject func() runtime.Object
	versioner storage.APIObjectVersioner

	mu              sync.Mutex
	resourceVersion uint64 // of the last write
	entries         map[string]*entry
	// history has the last writes, the oldest first. Their resourceVersions have no gaps.
	history []change
	// written is closed, and replaced, with each write.
	written chan struct{}
}

// entry is an object as it was stored. Neither it nor what it has is ever changed.
type entry struct {
	object          runtime.Object
	data            []byte // the object without its resourceVersion
	resourceVersion uint64
}

// change is a write to a key: before is nil when it was made, after when it was deleted.
type change struct {
	key             string
	before, after   *entry
	resourceVersion uint64
}

// New returns an empty storage for objects whose keys begin with the prefix, as in /llamas. newObject makes one of them, empty.
func New(prefix string, newObject func() runtime.Object) storage.Interface {
	return &store{
		prefix:          prefix,
		newObject:       newObject,
		resourceVersion: uint64(time.Now().UnixMicro()),
		entries:         map[string]*entry{},
		written:         make(chan struct{}),
	}
}

// Versioner implements storage.Interface.
func (s *store) Versioner() storage.Versioner { return s.versioner }

// Get implements storage.Interface.
func (s *store) Get(_ context.Context, key string, options storage.GetOptions, objectPtr runtime.Object) error {
	key, err := s.objectKey(key)
	if err != nil {
		return err
	}
	found, current := s.current(key)
	if err := s.notOlder(options.ResourceVersion, current); err != nil {
		return err
	}
	switch {
	case found != nil:
		return copyInto(found.object, objectPtr)
	case options.IgnoreNotFound:
		return runtime.SetZeroValue(objectPtr)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// objectKey is the key of one object.
func (s *store) objectKey(key string) (string, error) {
	if !strings.HasPrefix(key, s.prefix+"/") {
		return "", fmt.Errorf("invalid key %q: it has to be below %s", key, s.prefix)
	}
	return storage.PrepareKey(s.prefix, key, false)
}

// current returns what a key has now, and the resourceVersion of now.
func (s *store) current(key string) (*entry, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key], s.resourceVersion
}

// notOlder refuses to answer from now where something newer was asked for.
func (s *store) notOlder(wanted string, current uint64) error {
	minimum, err := s.versioner.ParseResourceVersion(wanted)
	if err != nil {
		return err
	}
	if minimum > current {
		return storage.NewTooLargeResourceVersionError(minimum, current, 1)
	}
	return nil
}

// Create implements storage.Interface. Objects live until they are deleted: the time to live is ignored.
func (s *store) Create(_ context.Context, key string, object, out runtime.Object, _ uint64) error {
	key, err := s.objectKey(key)
	if err != nil {
		return err
	}
	if version, err := s.versioner.ObjectResourceVersion(object); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	data, err := s.encode(object)
	if err != nil {
		return err
	}
	stored, done, err := s.write(key, nil, data)
	switch {
	case err != nil:
		return err
	case !done:
		return storage.NewKeyExistsError(key, 0)
	case out == nil:
		return nil
	}
	return copyInto(stored.object, out)
}

// encode encodes an object without its resourceVersion, which it takes out of the object, as every storage does, and without its kind.
func (s *store) encode(object runtime.Object) ([]byte, error) {
	if err := s.versioner.PrepareObjectForStorage(object); err != nil {
		return nil, fmt.Errorf("preparing a %T to be stored: %w", object, err)
	}
	kind := object.GetObjectKind()
	before := kind.GroupVersionKind()
	kind.SetGroupVersionKind(schema.GroupVersionKind{})
	data, err := json.Marshal(object)
	kind.SetGroupVersionKind(before)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", object, err)
	}
	return data, nil
}

// write stores an object under a key, or deletes it if data is nil. It is not done when the key has another entry than the one before.
func (s *store) write(key string, before *entry, data []byte) (after *entry, done bool, err error) {
	if data != nil {
		// What was encoded is less exact: times, for instance, are in seconds.
		after = &entry{object: s.newObject(), data: data}
		if err := json.Unmarshal(data, after.object); err != nil {
			return nil, false, fmt.Errorf("decoding %s as it would be stored: %w", key, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[key] != before {
		return nil, false, nil
	}
	if after == nil {
		delete(s.entries, key)
	} else {
		after.resourceVersion = s.resourceVersion + 1
		if err := s.versioner.UpdateObject(after.object, after.resourceVersion); err != nil {
			return nil, false, err
		}
		s.entries[key] = after
	}
	s.resourceVersion++
	s.remember(change{key: key, before: before, after: after, resourceVersion: s.resourceVersion})
	return after, true, nil
}

// copyInto makes a copy of what is stored the value of what the caller has given.
func copyInto(stored, into runtime.Object) error {
	from, to := reflect.ValueOf(stored.DeepCopyObject()), reflect.ValueOf(into)
	if from.Type() != to.Type() || to.IsNil() {
		return fmt.Errorf("the storage of %T was given a %T to read into", stored, into)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// Stats implements storage.Interface.
func (s *store) Stats(context.Context) (storage.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := storage.Stats{ObjectCount: int64(len(s.entries))}
	for _, entry := range s.entries {
		stats.EstimatedAverageObjectSizeBytes += int64(len(entry.data)) / stats.ObjectCount
	}
	return stats, nil
}

// ReadinessCheck implements storage.Interface: memory is always ready.
func (s *store) ReadinessCheck() error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (s *store) GetCurrentResourceVersion(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resourceVersion, nil
}

// CompactRevision implements storage.Interface: it is the last resourceVersion that cannot be read back any more.
func (s *store) CompactRevision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.history) < historyLength {
		return 0
	}
	return int64(s.history[0].resourceVersion) - 1
}

// RequestWatchProgress implements storage.Interface, for caches, which have no use over memory.
func (s *store) RequestWatchProgress(context.Context) error {
	return errors.New("the progress of a watch cannot be requested: do not put a cache over memorystore")
}

// EnableResourceSizeEstimation implements storage.Interface: sizes are always known.
func (s *store) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// within reports whether a key is the one that was asked for, or below it.
func within(key, asked string, recursive bool) bool {
	if recursive {
		return strings.HasPrefix(key, asked)
	}
	return key == asked
}
