// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// errStale is the error of a step that has met an object which the cache does not show as it is. The sync is repeated after
// controller.StaleCacheDelay.
var errStale = errors.New("the cache is stale")

// maxConcurrentRequests is how many requests of one sync are under way at the same time. Those of all syncs together delay the requests of
// others at the API server.
const maxConcurrentRequests = 4

// reconciler is one sync of one Machine.
type reconciler struct {
	*Controller
	key cache.ObjectName

	// mu guards observed while steps are applied concurrently.
	mu       sync.Mutex
	observed *observed
	// errs are the errors of the stages that have failed.
	errs []error
}

// Decide implements controller.Reconciler.
func (r *reconciler) Decide() controller.Plan { return decide(r.observed) }

// Apply implements controller.Reconciler. Its steps are stages.
func (r *reconciler) Apply(ctx context.Context, step controller.Step) error {
	s := step.(stage)
	if s.name == stageEnd {
		for _, step := range s.steps {
			if err := r.apply(ctx, step); err != nil {
				return r.fail(s.name, err)
			}
		}
		return nil
	}
	r.observed.progress.count(s.steps)
	errs := make([]error, len(s.steps))
	controller.Parallel(len(s.steps), maxConcurrentRequests, func(i int) { errs[i] = r.apply(ctx, s.steps[i]) })
	return r.fail(s.name, join(errs))
}

// count counts the steps of which one sync does only maxChanges.
func (p *progress) count(steps []controller.Step) {
	for _, step := range steps {
		switch step.(type) {
		case adopt, release:
			p.claims++
		case deleteSwitch:
			p.deletions++
		case stampSwitch:
			p.stamps++
		}
	}
}

// fail records that a stage has failed, unless the error is nil. It returns an error that ends the sync, if it is one.
func (r *reconciler) fail(name stageName, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, controller.ErrStop):
		return controller.ErrStop
	case errors.Is(err, errStale):
		r.observed.progress.cacheIsStale = true
	default:
		r.errs = append(r.errs, err)
	}
	if r.observed.progress.failed == nil {
		r.observed.progress.failed = sets.New[stageName]()
	}
	r.observed.progress.failed.Insert(name)
	return nil
}

// join returns errStale only where there is no other error.
func join(errs []error) error {
	isStale := func(err error) bool { return err == errStale }
	if others := errors.Join(slices.DeleteFunc(slices.Clone(errs), isStale)...); others != nil {
		return others
	}
	return errors.Join(errs...)
}

func (r *reconciler) apply(ctx context.Context, step controller.Step) error {
	switch step := step.(type) {
	case patchLever:
		return r.patchLever(ctx)
	case adopt:
		return r.adopt(ctx, r.find(step.name))
	case release:
		return r.release(ctx, r.find(step.name))
	case createSwitches:
		return r.createSwitches(ctx, step.names)
	case deleteSwitch:
		return r.deleteSwitch(ctx, r.find(step.name))
	case stampSwitch:
		return r.stampSwitch(ctx, r.find(step.name), step)
	case writeStatus:
		return r.writeStatus(ctx, step.status)
	case flipSwitch:
		return r.flipSwitch(ctx, step.flip)
	case controller.RecordEvent:
		r.recorder.Event(r.observed.machine, step.Type, step.Reason, step.Message)
		return nil
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}

func (r *reconciler) find(name string) *v1alpha1.Switch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.observed.find(name)
}

// wrote puts the answer to a write of a Switch into what is observed.
func (r *reconciler) wrote(sw *v1alpha1.Switch, note func(done *progress)) {
	r.consistency.WroteAt(r.key, r.switches, sw.ResourceVersion)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.put(sw)
	note(&r.observed.progress)
}

// failed returns the error of a write of a Switch. A Switch that is gone is no error: it is dropped from what is observed.
func (r *reconciler) failed(doing string, sw *v1alpha1.Switch, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s Switch %s: %w", doing, klog.KObj(sw), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.drop(sw.UID)
	return nil
}

func (r *reconciler) patchLever(ctx context.Context) error {
	body, err := json.Marshal(leverPatch(r.observed.machine))
	if err != nil {
		return err
	}
	updated, err := r.client.UselessV1alpha1().Machines(r.key.Namespace).Patch(ctx, r.key.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("moving the lever of Machine %s down: %w", r.key, err)
	}
	r.consistency.WroteAt(r.key, r.machines, updated.ResourceVersion)
	countFlip(targetLever, dueTime(r.observed.machine, r.observed.machine.Status.SeenAt))
	r.observed.machine, r.observed.progress.leverMoved = updated, true
	return nil
}

// writeStatus writes the status with the resourceVersion that was decided from as precondition, and replaces what is observed by the answer.
func (r *reconciler) writeStatus(ctx context.Context, status v1alpha1.MachineStatus) error {
	machine := r.observed.machine.DeepCopy()
	machine.Status = status
	updated, err := r.client.UselessV1alpha1().Machines(r.key.Namespace).UpdateStatus(ctx, machine, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Machine %s: %w", r.key, err)
	}
	r.consistency.WroteAt(r.key, r.machines, updated.ResourceVersion)
	r.observed.machine = updated
	return nil
}

// flipSwitch carries out the reservation. An error closes nothing: the watch shows what has become of the Switch.
func (r *reconciler) flipSwitch(ctx context.Context, flip v1alpha1.Flip) error {
	updated, err := r.patchSwitch(ctx, flip.Switch, flipPatch(flip))
	switch {
	case apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("moving Switch %s down: %w", klog.KRef(r.key.Namespace, flip.Switch), err)
	}
	r.consistency.WroteAt(r.key, r.switches, updated.ResourceVersion)
	if seenAt := updated.Status.SeenAt; seenAt != nil { // always, unless another client has written the reservation
		countFlip(targetSwitch, flipTime(r.observed.machine, seenAt, r.observed.machine.Status.LastFlipTime))
	}
	return nil
}

func (r *reconciler) stampSwitch(ctx context.Context, sw *v1alpha1.Switch, stamp stampSwitch) error {
	stamped := sw.DeepCopy()
	stamped.Status = v1alpha1.SwitchStatus{SeenAt: stamp.seenAt, ObservedGeneration: sw.Generation}
	updated, err := r.client.UselessV1alpha1().Switches(sw.Namespace).UpdateStatus(ctx, stamped, metav1.UpdateOptions{})
	if err != nil {
		return r.failed("writing the status of", sw, err)
	}
	r.wrote(updated, func(done *progress) {
		if stamp.isNew {
			done.seen = append(done.seen, fmt.Sprintf("%s is %s", updated.Name, updated.Spec.Position))
		}
	})
	return nil
}

func (r *reconciler) adopt(ctx context.Context, sw *v1alpha1.Switch) error {
	updated, err := r.patchSwitch(ctx, sw.Name, adoptPatch(r.observed.machine, sw))
	if err != nil {
		return r.failed("adopting", sw, err)
	}
	switchChanges.WithLabelValues(changeAdopted).Inc()
	r.wrote(updated, func(done *progress) { done.adopted = append(done.adopted, updated.Name) })
	return nil
}

func (r *reconciler) release(ctx context.Context, sw *v1alpha1.Switch) error {
	updated, err := r.patchSwitch(ctx, sw.Name, releasePatch(r.observed.machine, sw))
	if err != nil {
		return r.failed("releasing", sw, err)
	}
	switchChanges.WithLabelValues(changeReleased).Inc()
	r.wrote(updated, func(done *progress) { done.released = append(done.released, updated.Name) })
	return nil
}

func (r *reconciler) patchSwitch(ctx context.Context, name string, patch patch) (*v1alpha1.Switch, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return r.client.UselessV1alpha1().Switches(r.key.Namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
}

func (r *reconciler) deleteSwitch(ctx context.Context, sw *v1alpha1.Switch) error {
	r.memory.startDeleting(r.key, sw.UID)
	err := r.client.UselessV1alpha1().Switches(sw.Namespace).Delete(ctx, sw.Name, *metav1.NewPreconditionDeleteOptions(string(sw.UID)))
	if err != nil {
		r.memory.stopDeleting(sw.UID)
		return r.failed("deleting", sw, err)
	}
	switchChanges.WithLabelValues(changeDeleted).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.deleted(sw)
	return nil
}
