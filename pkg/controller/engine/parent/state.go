// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/hook"
)

// parentState is what the last sync of a parent left in memory. Only the syncs of that parent use it, one at a time.
type parentState struct {
	// selector of the parent in this version of its spec.
	selector    labels.Selector
	specVersion specVersion
	history     history
	lastAnswer  lastAnswer
	// definitions is the number of changes of definitions that the rest is later than.
	definitions uint64
	// customized are the answers of the customize hook, by the name of an older revision, and "" for the parent as it is.
	customized map[string]*customized
	// children are those of the last sync, nil if the parent does not roll, or if they have to be gathered again.
	children *children
	// decoded are the children in the last answers, by the name of the revision, nil if the parent does not roll.
	decoded map[string]*decodedChildren
}

// decodedChildren are the children in the last answer about a revision of a parent.
type decodedChildren struct {
	known   hook.Known
	desired *desiredChildren
}

// customizedFor returns what the customize hook has answered about the parent in an older revision, or "" for the parent as it is.
func (s *parentState) customizedFor(older string) *customized {
	if s.customized == nil {
		s.customized = map[string]*customized{}
	}
	if s.customized[older] == nil {
		s.customized[older] = &customized{}
	}
	return s.customized[older]
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
func (c *Controller) state(of *parents, name cache.ObjectName, uid types.UID) (state *parentState, isNew bool) {
	c.mu.Lock() // so that the last count that is set is the newest
	defer c.mu.Unlock()
	state, isNew = of.states.Of(name, uid)
	if isNew {
		c.countParents()
	}
	return state, isNew
}

func (c *Controller) countParents() { setParentCount(c.spec.kind, c.name, c.parentCount()) }

// parentCount returns the number of parents of which something is known.
func (c *Controller) parentCount() (n int) {
	for _, of := range c.parents {
		n += of.states.Len()
	}
	return n
}

// forget drops what is known of a parent that was deleted, or is none any more.
func (c *Controller) forget(of *parents, k Key) {
	c.mu.Lock()
	uid := of.states.Forget(k.objectName())
	c.countParents()
	c.mu.Unlock()
	if uid != "" {
		c.forgetAnswers(uid, "")
	}
	if !c.spec.generateSelector {
		c.orphans.forget(k, "")
	} else {
		c.orphans.forget(k, uid)
	}
	c.blocked.forget(k)
	for _, older := range c.older.set(k, nil) {
		c.forgetAnswers(uid, older)
		c.releaseRelated(k, older)
	}
	c.releaseRelated(k, "")
	c.served.forget(k)
	c.redefinitions.forget(k)
	c.written.Clear(k)
	if c.failures.forget(k); c.failures.haveChanged(c.parentCount()) {
		c.Changed()
	}
}
