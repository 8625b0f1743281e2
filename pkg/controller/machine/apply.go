// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// applier carries out the steps of one sync.
type applier struct {
	*Controller
	key cache.ObjectName

	// mu guards what is observed while steps are carried out at once.
	mu       sync.Mutex
	observed *observed
}

// maxAtOnce is how many requests of one sync are on their way at the same time.
const maxAtOnce = 16

// atOnce carries out steps that do not depend on each other, and all of them, whichever fail.
func (a *applier) atOnce(ctx context.Context, steps []step) error {
	errs := make([]error, len(steps))
	controller.Parallel(len(steps), maxAtOnce, func(i int) { errs[i] = a.apply(ctx, steps[i]) })
	return joined(errs...)
}

// inOrder carries out one step after the other, and stops at the first that fails.
func (a *applier) inOrder(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := a.apply(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) apply(ctx context.Context, step step) error {
	klog.FromContext(ctx).V(4).Info("Applying", "step", step)
	switch step := step.(type) {
	case patchLever:
		return a.patchLever(ctx)
	case confirm:
		return a.confirm(ctx)
	case adopt:
		return a.adopt(ctx, a.find(step.name))
	case release:
		return a.release(ctx, a.find(step.name))
	case createSwitches:
		return a.createSwitches(ctx, step.names)
	case deleteSwitch:
		return a.deleteSwitch(ctx, a.find(step.name))
	case stampSwitch:
		return a.stampSwitch(ctx, a.find(step.name), step)
	case writeStatus:
		return a.writeStatus(ctx, step.status)
	case flipSwitch:
		return a.flipSwitch(ctx, step.flip)
	case recordEvent:
		a.recorder.Event(a.observed.machine, step.eventType, step.reason, step.message)
		return nil
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}

func (a *applier) find(name string) *v1alpha1.Switch {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.observed.find(name)
}

// wrote puts the answer to a write of a Switch into what is observed.
func (a *applier) wrote(sw *v1alpha1.Switch, note func(done *outcome)) {
	a.consistency.WroteAt(a.key, a.switches, sw.ResourceVersion)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observed.put(sw)
	note(&a.observed.done)
}

// failed is the error of a write of a Switch. One that is gone is only taken out of what is observed.
func (a *applier) failed(doing string, sw *v1alpha1.Switch, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s Switch %s: %w", doing, klog.KObj(sw), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observed.drop(sw.UID)
	return nil
}

func (a *applier) patchLever(ctx context.Context) error {
	body, err := json.Marshal(leverPatch(a.observed.machine))
	if err != nil {
		return err
	}
	updated, err := a.client.UselessV1alpha1().Machines(a.key.Namespace).Patch(ctx, a.key.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("moving the lever of Machine %s down: %w", a.key, err)
	}
	a.consistency.WroteAt(a.key, a.machines, updated.ResourceVersion)
	countFlip(targetLever, dueTime(a.observed.machine, a.observed.machine.Status.SeenAt))
	a.observed.machine, a.observed.done.leverMoved = updated, true
	return nil
}

// writeStatus writes the status against the version that was decided from, and goes on from the answer.
func (a *applier) writeStatus(ctx context.Context, status v1alpha1.MachineStatus) error {
	machine := a.observed.machine.DeepCopy()
	machine.Status = status
	updated, err := a.client.UselessV1alpha1().Machines(a.key.Namespace).UpdateStatus(ctx, machine, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Machine %s: %w", a.key, err)
	}
	a.consistency.WroteAt(a.key, a.machines, updated.ResourceVersion)
	a.observed.machine = updated
	return nil
}

// flipSwitch carries out the reservation. That it is refused closes nothing: what has become of the Switch is told by the
// watch.
func (a *applier) flipSwitch(ctx context.Context, flip v1alpha1.Flip) error {
	updated, err := a.patchSwitch(ctx, flip.Switch, flipPatch(flip))
	switch {
	case apierrors.IsNotFound(err):
		return errLater
	case err != nil:
		return fmt.Errorf("moving Switch %s down: %w", klog.KRef(a.key.Namespace, flip.Switch), err)
	}
	a.consistency.WroteAt(a.key, a.switches, updated.ResourceVersion)
	if seenAt := updated.Status.SeenAt; seenAt != nil { // always, unless somebody else has written the reservation
		countFlip(targetSwitch, flipTime(a.observed.machine, seenAt))
	}
	return nil
}

func (a *applier) stampSwitch(ctx context.Context, sw *v1alpha1.Switch, stamp stampSwitch) error {
	stamped := sw.DeepCopy()
	stamped.Status = v1alpha1.SwitchStatus{SeenAt: stamp.seenAt, ObservedGeneration: sw.Generation}
	updated, err := a.client.UselessV1alpha1().Switches(sw.Namespace).UpdateStatus(ctx, stamped, metav1.UpdateOptions{})
	if err != nil {
		return a.failed("writing the status of", sw, err)
	}
	a.wrote(updated, func(done *outcome) {
		if stamp.isNews {
			done.seen = append(done.seen, fmt.Sprintf("%s is %s", updated.Name, updated.Spec.Position))
		}
	})
	return nil
}

func (a *applier) adopt(ctx context.Context, sw *v1alpha1.Switch) error {
	updated, err := a.patchSwitch(ctx, sw.Name, adoptPatch(a.observed.machine, sw))
	if err != nil {
		return a.failed("adopting", sw, err)
	}
	switchChanges.WithLabelValues(changeAdopted).Inc()
	a.wrote(updated, func(done *outcome) { done.adopted = append(done.adopted, updated.Name) })
	return nil
}

// confirm looks at the live Machine: a cache that is behind must not give switches to a Machine that is gone, or going.
func (a *applier) confirm(ctx context.Context) error {
	machine, err := a.client.UselessV1alpha1().Machines(a.key.Namespace).Get(ctx, a.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (machine.UID != a.observed.machine.UID || machine.DeletionTimestamp != nil):
		return errGoing
	case err != nil:
		return fmt.Errorf("reading Machine %s before it adopts a Switch: %w", a.key, err)
	}
	return nil
}

func (a *applier) release(ctx context.Context, sw *v1alpha1.Switch) error {
	updated, err := a.patchSwitch(ctx, sw.Name, releasePatch(a.observed.machine, sw))
	if err != nil {
		return a.failed("releasing", sw, err)
	}
	switchChanges.WithLabelValues(changeReleased).Inc()
	a.wrote(updated, func(done *outcome) { done.released = append(done.released, updated.Name) })
	return nil
}

func (a *applier) patchSwitch(ctx context.Context, name string, patch patch) (*v1alpha1.Switch, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return a.client.UselessV1alpha1().Switches(a.key.Namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
}

func (a *applier) deleteSwitch(ctx context.Context, sw *v1alpha1.Switch) error {
	a.memory.startDeleting(sw.UID)
	err := a.client.UselessV1alpha1().Switches(sw.Namespace).Delete(ctx, sw.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(sw.UID)}})
	if err != nil {
		a.memory.stopDeleting(sw.UID)
		return a.failed("deleting", sw, err)
	}
	switchChanges.WithLabelValues(changeDeleted).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observed.deleted(sw)
	return nil
}
