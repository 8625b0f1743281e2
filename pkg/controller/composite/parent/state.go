// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// parentState is what the last sync of a parent left in memory. Only the syncs of that parent use it, one at a time.
type parentState struct {
	uid types.UID
	// selector of the parent in this version of its spec.
	selector    labels.Selector
	specVersion specVersion
	history     history
	lastAnswer  lastAnswer
}

// specVersion is a version of a parent's spec. Kinds without a generation have only the resourceVersion.
type specVersion struct {
	generation      int64
	resourceVersion string
}

func specVersionOf(parent object) specVersion {
	if generation := parent.GetGeneration(); generation > 0 {
		return specVersion{generation: generation}
	}
	return specVersion{resourceVersion: parent.GetResourceVersion()}
}

// state returns the state of a parent. It is new for another object of the same name.
func (c *Controller) state(name cache.ObjectName, uid types.UID) (state *parentState, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state = c.states[name]
	if state == nil || state.uid != uid {
		state, isNew = &parentState{uid: uid}, true
		c.states[name] = state
		setParentCount(c.name, len(c.states))
	}
	return state, isNew
}

// forget drops what is known of a parent that was deleted, or is none any more. It reports whether Health has changed.
func (c *Controller) forget(k Key) (changed bool) {
	c.mu.Lock()
	state := c.states[k.objectName()]
	delete(c.states, k.objectName())
	setParentCount(c.name, len(c.states))
	c.mu.Unlock()
	if state != nil {
		for _, hook := range c.hooks {
			hook.Forget(string(state.uid))
		}
	}
	c.orphans.forget(k)
	c.blocked.forget(k)
	c.written.Clear(k)
	changed, _ = c.failures.report(k, "", nil)
	return changed
}
