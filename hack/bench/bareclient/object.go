// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/hack/bench/traffic"
)

// object is one of those that are worked on, by one worker at a time.
type object struct {
	name   string
	script script
	steps  []step // of this phase, still to be done

	mu     sync.Mutex
	now    map[string]string // what stands for a recorded UID or resourceVersion
	child  metav1.Object     // nil if there is none
	parked bool              // until the child is what the next step waits for
}

func newObject(live metav1.Object, s script) *object {
	o := &object{name: live.GetName(), script: s, now: map[string]string{}}
	o.stands(s.before, traffic.Identity{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()})
	return o
}

// park tells whether the next step has to wait. If so the object belongs to the watch, which hands it back to the workers.
func (o *object) park() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parked = !o.mayGoOn()
	return o.parked
}

// saw tells whether the object has waited for this change of its child.
func (o *object) saw(event watch.EventType, child metav1.Object) (goOn bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.child = child; event == watch.Deleted {
		o.child = nil
	}
	if !o.parked || !o.mayGoOn() {
		return false
	}
	o.parked = false
	return true
}

func (o *object) mayGoOn() bool {
	until := o.steps[0].wait.until
	return until == nil || until(o.child)
}

// fill makes the URI or the body of a request up to date.
func (o *object) fill(t template) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.fill(o.now)
}

// stands notes what stands for what was recorded.
func (o *object) stands(recorded, now traffic.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now[string(recorded.UID)] = string(now.UID)
	o.now[recorded.ResourceVersion] = now.ResourceVersion
}
