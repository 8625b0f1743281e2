// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// Asks.
type (
	// readReserved reads the live Switch of the reservation: the cache does not prove what has become of it.
	readReserved struct{}
	// readMachine reads the live Machine: a stale cache must not give switches to a Machine that is gone or being deleted.
	readMachine struct{}
)

func (readReserved) String() string { return "read the reserved Switch" }
func (readMachine) String() string  { return "read the Machine" }

// Steps.
type (
	// patchLever moves the Machine's own lever down.
	patchLever struct{}
	// adopt makes the Machine the controller of a Switch.
	adopt struct{ name string }
	// release gives up a Switch that the selector no longer matches.
	release struct{ name string }
	// createSwitches creates switches, until one is rejected.
	createSwitches struct{ names []string }
	// deleteSwitch deletes a Switch, guarded by its UID.
	deleteSwitch struct{ name string }
	// stampSwitch records when a Switch was seen up; never for one that is down again. isNew reports whether no event has reported it.
	stampSwitch struct {
		name   string
		seenAt *metav1.MicroTime
		isNew  bool
	}
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct{ status v1alpha1.MachineStatus }
	// flipSwitch carries out the reservation.
	flipSwitch struct{ flip v1alpha1.Flip }
)

func (patchLever) String() string       { return "move the lever down" }
func (s adopt) String() string          { return "adopt " + s.name }
func (s release) String() string        { return "release " + s.name }
func (s createSwitches) String() string { return "create " + strings.Join(s.names, ", ") }
func (s deleteSwitch) String() string   { return "delete " + s.name }
func (s stampSwitch) String() string {
	if s.seenAt == nil {
		return "stamp " + s.name + " down"
	}
	return fmt.Sprintf("stamp %s seen at %s", s.name, s.seenAt.UTC().Format(time.TimeOnly))
}
func (s writeStatus) String() string { return "write status: " + describeStatus(s.status) }
func (s flipSwitch) String() string {
	return fmt.Sprintf("flip %s at version %s", s.flip.Switch, s.flip.ResourceVersion)
}

// stage is the step that applies the steps of one part of a sync. A stage that fails holds up no other one: a quota that rejects new
// switches is no reason to leave the others up.
type stage struct {
	name stageName
	// steps are applied concurrently, all of them whichever fail. Those of stageEnd are applied in order, until one fails.
	steps []controller.Step
}

type stageName string

const (
	// stageLever moves the lever down that was seen up long enough ago. It has nothing to do with the switches.
	stageLever stageName = "lever"
	// stageScale adopts and releases switches, then creates or deletes as many as are missing or too many. More than maxChanges are left to the next
	// sync.
	stageScale stageName = "scale"
	// stageStamps records when each switch was seen up.
	stageStamps stageName = "stamps"
	// stageEnd records what was done, writes the status, and flips one switch at most.
	stageEnd stageName = "end"
)

func (s stage) String() string {
	texts := make([]string, len(s.steps))
	for i := range s.steps {
		texts[i] = s.steps[i].String()
	}
	return string(s.name) + ": " + strings.Join(texts, "; ")
}

// decide returns the next stage of the sync. Each stage is decided from the outcome of those before it.
func decide(o *observed) controller.Plan {
	switch {
	case o.machine.DeletionTimestamp != nil:
		return controller.Plan{} // the garbage collector deletes or orphans the switches
	case reservationOf(o) == unknownReservation:
		return controller.Plan{Asks: []controller.Ask{readReserved{}}}
	}
	if steps := lever(o); o.isNext(stageLever, steps) {
		return intermediate(stageLever, steps)
	}
	if len(o.orphans) > 0 && !o.machineIsLive && !o.progress.failed.Has(stageScale) {
		return controller.Plan{Asks: []controller.Ask{readMachine{}}}
	}
	if steps := someOf(maxChanges-o.progress.claims, claim(o), o.now); o.isNext(stageScale, steps) {
		return intermediate(stageScale, steps)
	}
	if steps := scale(o); o.isNext(stageScale, steps) {
		return intermediate(stageScale, steps) // and once more if a name was taken
	}
	if steps := someOf(maxChanges-o.progress.stamps, stamps(o), o.now); o.isNext(stageStamps, steps) {
		return intermediate(stageStamps, steps)
	}
	return end(o)
}

// isNext reports whether the stage has steps and has not failed in this sync.
func (o *observed) isNext(name stageName, steps []controller.Step) bool {
	return len(steps) > 0 && !o.progress.failed.Has(name)
}

// intermediate returns the plan of a stage after which there is more to decide.
func intermediate(name stageName, steps []controller.Step) controller.Plan {
	return controller.Plan{Steps: []controller.Step{stage{name, steps}}, Again: true}
}

// end returns the plan of the last stage, and the delay until something is due.
func end(o *observed) controller.Plan {
	steps := progressEvents(o)
	status := nextStatus(o)
	if !isSameStatus(&o.machine.Status, &status) {
		steps = append(append(steps, writeStatus{status}), statusEvents(&o.machine.Status, &status)...)
	}
	if flip := status.Flip; flip != nil && !o.reservedIsDeleting {
		steps = append(steps, flipSwitch{*flip}, flippedEvent(flip))
	}
	p := controller.Plan{RequeueAfter: nextDue(o, &status)}
	if len(steps) > 0 {
		p.Steps = []controller.Step{stage{stageEnd, steps}}
	}
	if o.progress.cacheIsStale || isUnfinished(o) {
		p.RequeueAfter = controller.EarliestDelay(p.RequeueAfter, controller.StaleCacheDelay)
	}
	return p
}

// nextDue returns the delay until something is due for a Machine with that status; 0 if nothing is.
func nextDue(o *observed, status *v1alpha1.MachineStatus) (delay time.Duration) {
	if status.SeenAt != nil && leverIsUp(o.machine) {
		delay = controller.EarliestDelay(dueTime(o.machine, status.SeenAt).Sub(o.now))
	}
	if status.Flip != nil {
		return controller.EarliestDelay(delay, controller.StaleCacheDelay) // no other flip before this one is closed
	}
	for _, sw := range pending(o) {
		delay = controller.EarliestDelay(delay, flipTime(o.machine, sw.Status.SeenAt, status.LastFlipTime).Sub(o.now))
	}
	return delay
}
