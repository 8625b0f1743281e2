// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
)

// reasonUndecodable is the reason of the event of an object that cannot be decoded, and with which nothing is done.
const reasonUndecodable = "Undecodable"

const (
	// maxUndecodable is how many bytes of the error are reported. It may quote the object.
	maxUndecodable = 500
	// maxPending is how many objects have an event when the process becomes the leader.
	maxPending = 1000
)

// undecodable reports the objects that cannot be decoded: by the log, and by an event once the process leads, since only the leader records events.
type undecodable struct {
	recorder record.EventRecorder

	mu      sync.Mutex
	leads   bool
	pending map[types.UID]pendingEvent
}

// pendingEvent is the event of an object that was reported before the process led.
type pendingEvent struct {
	object  *corev1.ObjectReference
	problem string
	decoded func() bool
}

func newUndecodable(recorder record.EventRecorder) *undecodable {
	return &undecodable{recorder: recorder, pending: map[types.UID]pendingEvent{}}
}

// report an object, of which there is the metadata only. decoded reports whether it can be decoded meanwhile.
func (u *undecodable) report(ctx context.Context, object runtime.Object, err error, decoded func() bool) {
	problem := controller.Truncate(err.Error(), maxUndecodable)
	ref, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to name an object that cannot be decoded", "problem", problem)
		return
	}
	klog.FromContext(ctx).Error(nil, "Failed to decode an object, with which nothing is done", "kind", ref.Kind, "object", klog.KRef(ref.Namespace, ref.Name), "err", problem)
	u.mu.Lock()
	defer u.mu.Unlock()
	_, isPending := u.pending[ref.UID]
	switch {
	case u.leads:
		u.record(ref, problem)
	case isPending || len(u.pending) < maxPending:
		u.pending[ref.UID] = pendingEvent{object: ref, problem: problem, decoded: decoded}
	}
}

func (u *undecodable) record(object *corev1.ObjectReference, problem string) {
	u.recorder.Eventf(object, corev1.EventTypeWarning, reasonUndecodable, "Nothing is done with this object, which cannot be decoded: %s", problem)
}

// lead records the events of the objects that were reported before the process led and that cannot be decoded yet.
func (u *undecodable) lead() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leads = true
	for _, event := range u.pending {
		if !event.decoded() {
			u.record(event.object, event.problem)
		}
	}
	clear(u.pending)
}
