// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

var _ controller.Reconciler = (*syncer)(nil)

// Decide implements controller.Reconciler.
func (s *syncer) Decide() controller.Plan {
	s.plan, s.reads = decide(s.o), reads{}
	if len(s.plan.Asks) > 0 {
		return s.plan.Plan
	}
	// These answers are valid for one decision.
	clear(s.o.polled)
	clear(s.o.prepared)
	s.nameEvents(s.plan.Steps)
	p := s.plan.Plan
	p.Steps = grouped(p.Steps)
	return p
}

// independentSteps are applied independently: a phase that cannot be started, stopped or cleaned up does not delay the others.
type independentSteps []controller.Step

// String implements controller.Step.
func (s independentSteps) String() string {
	var texts []string
	for _, each := range s {
		texts = append(texts, each.String())
	}
	return strings.Join(texts, "; ")
}

// grouped returns the steps with consecutive steps of phases combined into independentSteps.
func grouped(steps []controller.Step) (groups []controller.Step) {
	var phases independentSteps
	flush := func() {
		if len(phases) > 0 {
			groups, phases = append(groups, phases), nil
		}
	}
	for _, next := range steps {
		switch next.(type) {
		case startPhase, cancelPhase, cleanUp:
			phases = append(phases, next)
		default:
			flush()
			groups = append(groups, next)
		}
	}
	flush()
	return groups
}

// Apply implements controller.Reconciler.
func (s *syncer) Apply(ctx context.Context, next controller.Step) error {
	steps, independent := next.(independentSteps)
	if !independent {
		_, err := s.applyStep(ctx, next)
		return err
	}
	return s.act(ctx, steps)
}

// act applies the steps of phases, as far as there is time, each once in a sync. What fails is returned at the end of the sync, and tried again in the next
// round. Then, and if something is left to the next sync, the clean-up cannot end.
func (s *syncer) act(ctx context.Context, steps independentSteps) error {
	observed, complete := false, true
	for i, step := range steps {
		if !s.share.mayAct() {
			s.leave(steps[i:])
			complete = false
			break
		}
		again, err := s.applyStep(ctx, step)
		observed = observed || again
		part, ofRound := step.(roundPart)
		if ofRound {
			s.o.round.Insert(part.about())
		}
		if _, cleansUp := step.(cleanUp); cleansUp {
			err = s.cleanedUp(ctx, part.about(), err)
		} else {
			if ofRound {
				s.share.finish(part.about())
			}
			if err != nil {
				s.share.failures = append(s.share.failures, err)
			}
		}
		if err != nil {
			s.ignoreInSync(phaseOfStep(step))
			complete = false
		}
	}
	s.o.leftUnknown = s.o.leftUnknown || !complete
	switch {
	case observed:
		return controller.ErrDecideAgain
	case !complete:
		return errNotActed
	default:
		return nil
	}
}

// leave leaves steps to the next sync, which polls their phases again.
func (s *syncer) leave(steps independentSteps) {
	for _, step := range steps {
		key := phaseOfStep(step)
		s.share.pollAgain(key)
		s.ignoreInSync(key)
	}
}

// ignoreInSync has a phase not polled again in this sync.
func (s *syncer) ignoreInSync(key phaseKey) {
	s.o.round.Insert(pollPhase{key: key}.about(), pollPhase{key: key, stopping: true}.about())
}

// phaseOfStep returns the phase of one of independentSteps.
func phaseOfStep(step controller.Step) phaseKey {
	switch step := step.(type) {
	case startPhase:
		return step.key
	case cancelPhase:
		return step.key
	default:
		return step.(cleanUp).key
	}
}

// applyStep applies a step. It reports whether something was observed that needs another decision.
func (s *syncer) applyStep(ctx context.Context, next controller.Step) (again bool, _ error) {
	switch next := next.(type) {
	case addFinalizer:
		return false, s.setFinalizers(ctx, append(slices.Clone(s.o.set.Finalizers), Finalizer))
	case keepFinalizer:
		return false, s.setFinalizers(ctx, s.o.set.Finalizers)
	case removeFinalizer:
		err := s.setFinalizers(ctx, slices.DeleteFunc(slices.Clone(s.o.set.Finalizers), func(f string) bool { return f == Finalizer }))
		if apierrors.IsNotFound(err) {
			err = nil // another client has removed it, and the ActionSet is gone
		}
		return false, err
	case createSnapshot:
		return false, s.createSnapshot(ctx, next.snapshot)
	case deleteSnapshot:
		return false, s.cleanUpSnapshot(ctx)
	case writeStatus:
		err := s.writeStatus(ctx, next.status)
		if err == nil && s.tried {
			s.running.letOthersRun() // it is recorded that the process has survived
		}
		return false, err
	case startPhase:
		return s.start(ctx, next.key)
	case cancelPhase:
		s.o.stopTried = s.memory.triedToStop(next.key)
		err := s.cancel(ctx, next.key)
		if err != nil && next.ignoreFailure {
			klog.FromContext(ctx).Info("Failed to stop a phase; its namespace is terminating", "phase", next.key, "err", err)
			return false, nil
		}
		return false, err
	case cleanUp:
		return false, s.cancel(ctx, next.key)
	case recordEvent:
		s.record(next)
		return false, nil
	default:
		return false, fmt.Errorf("unknown step %T", next)
	}
}

// setFinalizers writes only the finalizers, so that it does not overwrite edits of users.
func (s *syncer) setFinalizers(ctx context.Context, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": s.o.set.ResourceVersion, "uid": s.o.set.UID,
	}})
	if err != nil {
		return err
	}
	s.addWrite(ctx)
	patched, err := s.Client.CrV1alpha1().ActionSets(s.key.Namespace).Patch(ctx, s.key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing the finalizers of ActionSet %s: %w", s.key, err)
	}
	s.recordWrite(patched)
	return nil
}

const (
	// readsOfSet is as how much memory that of an ActionSet counts: the API server compares its fields with the schema.
	readsOfSet = 2
	// readsOfWrite is how many reads a write counts as: the API server decodes the object, reads the old one, and sends the new one to those that watch.
	readsOfWrite = 3
)

// addWrite counts a write of the ActionSet.
func (s *syncer) addWrite(ctx context.Context) {
	phase.AddReads(ctx, readsOfWrite, readsOfWrite*readsOfSet*s.memorySize)
}

// writeStatus writes the status, with the observed resourceVersion as a precondition.
func (s *syncer) writeStatus(ctx context.Context, status v1alpha1.ActionSetStatus) error {
	set := *s.o.set
	set.Status = s.withUID(status)
	s.addWrite(ctx)
	updated, err := s.Client.CrV1alpha1().ActionSets(s.key.Namespace).UpdateStatus(ctx, &set, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		s.statusAPI.recheck() // unless the ActionSet is gone
	}
	if controller.IsTooLarge(err) {
		return s.refusedAsTooLarge(err)
	}
	if err != nil {
		return fmt.Errorf("writing the status of ActionSet %s: %w", s.key, err)
	}
	if status.Snapshot != nil && updated.Status.Snapshot == nil {
		return errors.New(outdatedDefinition)
	}
	if launching(updated.Status) != nil {
		s.memory.launchingShown = s.o.now
	}
	count(s.o.snapshot, s.o.set.Status, updated.Status)
	s.recordWrite(updated)
	s.o.statusTooLarge, s.memory.unwritable = "", false
	for key := range s.memory.args {
		if of := phaseIn(s.o.set.Status, key); of == nil || of.CompletionTime != nil {
			delete(s.memory.args, key)
		}
	}
	return nil
}

// refusedAsTooLarge causes another decision, to write a small status. If that was rejected too, what users have written is already too large:
// the error is permanent until the ActionSet changes, and when the ActionSet is deleted, its finalizer is removed.
func (s *syncer) refusedAsTooLarge(err error) error {
	if s.o.statusTooLarge == "" {
		s.o.statusTooLarge = shorten(err.Error(), maxSmallMessage)
		return controller.ErrDecideAgain
	}
	if s.o.set.DeletionTimestamp != nil && !s.o.unwritable {
		s.o.unwritable = true
		return controller.ErrDecideAgain
	}
	err = fmt.Errorf("the API server refuses even a small status of ActionSet %s as too large: delete it, and create one with a smaller spec and fewer annotations: %w",
		s.key, err)
	if !s.memory.unwritable {
		s.memory.unwritable = true
		s.recordWarning(v1alpha1.ReasonStatusTooLarge, err.Error())
	}
	return controller.Permanent(err)
}

func (s *syncer) recordWrite(set *v1alpha1.ActionSet) {
	s.written.WroteAt(s.key, s.setStore, set.ResourceVersion)
	s.o.set = set
}

// start carries out the intent of a phase that is recorded in the status.
func (s *syncer) start(ctx context.Context, key phaseKey) (again bool, _ error) {
	call, err := s.callWithArgs(ctx, key)
	var found phase.Observation
	if err == nil {
		found, err = s.functionOf(key).Start(ctx, call)
	}
	if message, ok := phase.FailureOf(err); ok {
		found, err = phase.Observation{State: phase.Failed, Message: message}, nil
	}
	if err != nil {
		if s.memory.unstarted == nil {
			s.memory.unstarted = map[phaseKey]phase.Waiting{}
		}
		s.memory.unstarted[key] = waitingForRetry(err)
		return false, fmt.Errorf("starting phase %s of ActionSet %s: %w", key, s.key, err)
	}
	delete(s.memory.unstarted, key)
	s.o.polled[key] = found
	s.forgetArgs(key, found)
	s.memory.rememberWaiting(&s.o, key, found.Waiting)
	return true, nil
}

// cancel stops a phase, or removes what it has left.
func (s *syncer) cancel(ctx context.Context, key phaseKey) error {
	call, err := s.callOf(key)
	if function := s.functionOf(key); err == nil && function != nil {
		err = function.Cancel(ctx, call)
	}
	// Both may have failed to delete the same Pod.
	if removeErr := s.functions.Remove(ctx, call.ID); removeErr != nil && (err == nil || removeErr.Error() != err.Error()) {
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return fmt.Errorf("removing what phase %s of ActionSet %s has left: %w", key, s.key, err)
	}
	return nil
}

// nameEvents gives each event among the steps of a plan its name. The names increase, like those of client-go, and are consecutive within a plan
// (see nameAfter). The last event has its name in the status before it is posted.
func (s *syncer) nameEvents(steps []controller.Step) {
	var last string
	next := max(time.Now().UnixNano(), s.memory.lastName+1)
	for i := range steps {
		event, ok := steps[i].(recordEvent)
		if !ok || event.name != "" {
			continue
		}
		event.name, s.memory.lastName = strconv.FormatInt(next, 16), next
		next++
		if event.last && event.blueprint == "" {
			last = event.name
		}
		steps[i] = event
	}
	for i := range steps {
		if write, ok := steps[i].(writeStatus); ok && write.status.LastEvent != nil && write.status.LastEvent.Name == "" {
			write.status.LastEvent.Name = last
		}
	}
}

// recordWarning records a Warning on the ActionSet that is in no plan.
func (s *syncer) recordWarning(reason, message string) {
	steps := []controller.Step{recordEvent{eventType: corev1.EventTypeWarning, reason: reason, message: message}.bounded()}
	s.nameEvents(steps)
	s.record(steps[0].(recordEvent))
}

func (s *syncer) record(event recordEvent) {
	var about runtime.Object = s.o.set
	if event.blueprint != "" {
		found := s.o.blueprints[event.blueprint]
		if found == nil {
			var err error
			if found, err = s.blueprints.Blueprints(s.key.Namespace).Get(event.blueprint); err != nil {
				return // the Blueprint is gone, and users would not find its events
			}
		}
		about = found
	}
	if event.last && event.blueprint == "" {
		s.memory.recordedEvent, s.o.recordedEvent = event.name, event.name
	}
	s.Recorder.AnnotatedEventf(about, controller.NamedEvent(event.name, event.last), event.eventType, event.reason, "%s", event.message)
}
