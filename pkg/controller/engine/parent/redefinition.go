// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A change of a definition changes objects without their resourceVersions: they get defaults, and fields that they did not have. What the API server ignored
// of a write before is stored now. So nothing that was decided of a resourceVersion holds any more.

// redefinitions counts the changes of the definitions of parents and children, and has the parents that wait for one. The zero value is ready to use.
type redefinitions struct {
	mu    sync.Mutex
	count uint64
	// ignored are the parents of which the API server has ignored a write since the last change: perhaps the definition lacks a field.
	ignored map[Key]struct{}
}

// current returns the number of changes.
func (r *redefinitions) current() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// change counts a change, and returns the parents that have waited for one.
func (r *redefinitions) change() []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	waiting := slices.Collect(maps.Keys(r.ignored))
	r.ignored = nil
	return waiting
}

// wait has a parent wait for the change after that number of changes. It reports false if there was one already.
func (r *redefinitions) wait(parent Key, after uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count != after {
		return false
	}
	if r.ignored == nil {
		r.ignored = map[Key]struct{}{}
	}
	r.ignored[parent] = struct{}{}
	return true
}

func (r *redefinitions) forget(parent Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ignored, parent)
}

// redefinitionLag is when a change of a definition counts once more: by then each of several API servers has taken it over.
const redefinitionLag = 30 * time.Second

// Redefined takes over that a resource has another definition than before. Parents of which the API server has ignored a write are queued.
func (c *Controller) Redefined(of schema.GroupResource) {
	isOf := func(w watch) bool { return w.of.GroupResource() == of }
	if slices.ContainsFunc(c.watches(), isOf) {
		c.countRedefinition()
		time.AfterFunc(redefinitionLag, c.countRedefinition)
	}
}

func (c *Controller) countRedefinition() { c.Queue.EnqueueResync(c.redefinitions.change()...) }

// takeOverDefinitions forgets what was decided of the parent before the last change of a definition.
func (s *parentSync) takeOverDefinitions() {
	if s.state.definitions == s.definitions {
		return
	}
	s.state.definitions = s.definitions
	s.state.specVersion, s.state.lastAnswer = specVersion{}, lastAnswer{}
	for _, known := range s.state.customized {
		known.resourceVersion = ""
	}
	s.state.history = s.state.history.redefined()
}

// waitForDefinitions has the parent synced after the next change of a definition, if the API server has ignored a write.
func (s *parentSync) waitForDefinitions() {
	if s.state != nil && s.state.history.ignored && !s.redefinitions.wait(s.key, s.definitions) {
		s.Queue.Enqueue(s.key)
	}
}
