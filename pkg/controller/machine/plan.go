// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

var (
	// errGoing ends a sync in peace: the Machine or its namespace is being deleted, and all that is in it.
	errGoing = errors.New("the Machine or its namespace is being deleted")
	// errLater ends a stage in peace: the watch has yet to tell what has become of it.
	errLater = errors.New("the cache is behind")
)

// step is one of the types below.
type step interface{ String() string }

type (
	// patchLever moves the Machine's own lever down.
	patchLever struct{}
	// confirm asks the API server whether the Machine is still the one that we know, and is to stay.
	confirm struct{}
	// adopt makes us the controller of a Switch.
	adopt struct{ name string }
	// release gives up a Switch that the selector no longer matches.
	release struct{ name string }
	// createSwitches creates switches, as long as none is refused.
	createSwitches struct{ names []string }
	// deleteSwitch deletes a Switch, guarded by its UID.
	deleteSwitch struct{ name string }
	// stampSwitch writes down when a Switch was seen up; never for one that is down again. isNews says that nobody was told.
	stampSwitch struct {
		name   string
		seenAt *metav1.MicroTime
		isNews bool
	}
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct{ status v1alpha1.MachineStatus }
	// flipSwitch carries out the reservation.
	flipSwitch struct{ flip v1alpha1.Flip }
	// recordEvent records an event on the Machine.
	recordEvent struct{ eventType, reason, message string }
)

func (patchLever) String() string       { return "move the lever down" }
func (confirm) String() string          { return "confirm the Machine" }
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
func (s recordEvent) String() string {
	return fmt.Sprintf("event %s %s %q", s.eventType, s.reason, s.message)
}

// hands carry out steps, and put into what is observed what has become of it.
type hands struct {
	// atOnce carries out steps that do not depend on each other; inOrder stops at the first that fails.
	atOnce, inOrder func([]step) error
}

// follow goes through the stages of one sync. Each decides from what the ones before have done. A stage that fails does not
// hold up the ones that can do without it: a quota that refuses new switches is no reason to leave the others up. It returns
// when to look again if nothing happens before.
func follow(o *observed, h hands) (requeueAfter time.Duration, err error) {
	if o.machine.DeletionTimestamp != nil {
		return 0, nil // the garbage collector deletes or releases the switches
	}
	leverErr := h.atOnce(lever(o))
	scaleErr := h.inOrder(confirmation(o))
	if scaleErr == nil {
		scaleErr = h.atOnce(claim(o))
	}
	for scaleErr == nil {
		steps := scale(o)
		if len(steps) == 0 {
			break
		}
		scaleErr = h.atOnce(steps) // again if a name was taken
	}
	if errors.Is(scaleErr, errGoing) {
		return 0, nil
	}
	stampErr := h.atOnce(stamp(o))
	endErr := h.inOrder(end(o))
	for _, err := range []*error{&scaleErr, &endErr} {
		if errors.Is(*err, errLater) {
			requeueAfter, *err = controller.StaleCacheDelay, nil
		}
	}
	return earlier(requeueAfter, nextLook(o)), joined(leverErr, scaleErr, stampErr, endErr)
}

// joined leaves out what a newer cache mends where there is something worse: the loop is quiet about the one, and not about
// the other.
func joined(errs ...error) error {
	worse := slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		return err == nil || errors.Is(err, errLater) || apierrors.IsConflict(err)
	})
	if len(worse) > 0 {
		return errors.Join(worse...)
	}
	return errors.Join(errs...)
}

// lever moves the lever down that was seen up long enough ago. It has nothing to do with the switches.
func lever(o *observed) []step {
	seenAt := o.machine.Status.SeenAt
	if !leverIsUp(o.machine) || seenAt == nil || o.now.Before(dueTime(o.machine, seenAt)) {
		return nil
	}
	return []step{patchLever{}}
}

// confirmation comes before anything is adopted: nothing must be given to a Machine that is gone, or going.
func confirmation(o *observed) []step {
	if len(o.orphans) == 0 {
		return nil
	}
	return []step{confirm{}}
}

// claim makes the switches ours that the selector matches, and no others.
func claim(o *observed) (steps []step) {
	if o.selector == nil {
		return nil
	}
	for _, sw := range o.owned {
		if !o.selector.Matches(labels.Set(sw.Labels)) {
			steps = append(steps, release{sw.Name})
		}
	}
	for _, sw := range o.orphans {
		steps = append(steps, adopt{sw.Name})
	}
	return steps
}

// missing is how many switches are to be created; negative if there are too many.
func missing(o *observed) int {
	if o.selector == nil {
		return 0
	}
	return int(o.machine.Spec.Switches) - len(o.owned)
}

// scale makes as many switches as wanted, or deletes the newest of too many.
func scale(o *observed) (steps []step) {
	wanted := missing(o)
	if wanted > 0 {
		return []step{createSwitches{freeNames(o.machine.UID, o.taken, wanted)}}
	}
	if wanted == 0 {
		return nil
	}
	newest := slices.SortedFunc(slices.Values(o.owned), func(a, b *v1alpha1.Switch) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	for _, sw := range newest[:-wanted] {
		steps = append(steps, deleteSwitch{sw.Name})
	}
	return steps
}

// stamp writes down when each switch was seen up.
func stamp(o *observed) (steps []step) {
	for _, sw := range o.owned {
		seenAt := sw.Status.SeenAt
		switch {
		case isUp(sw) && (seenAt == nil || isUpAgain(o, sw)):
			steps = append(steps, stampSwitch{sw.Name, timeAt(o.now), true})
		case isUp(sw) && isFuture(seenAt, o.now):
			steps = append(steps, stampSwitch{sw.Name, timeAt(o.now), false})
		case !isUp(sw) && seenAt != nil:
			steps = append(steps, stampSwitch{name: sw.Name})
		}
	}
	return steps
}

// isUpAgain tells whether the switch was flipped up after we had moved it down, and before that was written down: that makes
// two changes since it was stamped, and a flip since it was due.
func isUpAgain(o *observed, sw *v1alpha1.Switch) bool {
	if sw.Generation < sw.Status.ObservedGeneration+2 {
		return false
	}
	status := &o.machine.Status
	if flip := status.Flip; flip != nil && flip.UID == sw.UID && reservationOf(o) == closedReservation {
		return true
	}
	return status.LastFlipTime != nil && !status.LastFlipTime.Time.Before(dueTime(o.machine, sw.Status.SeenAt))
}

// nextLook is when something is due, counted from now; 0 if nothing is.
func nextLook(o *observed) (after time.Duration) {
	if seenAt := o.machine.Status.SeenAt; seenAt != nil && leverIsUp(o.machine) {
		after = dueTime(o.machine, seenAt).Sub(o.now)
	}
	if o.machine.Status.Flip != nil {
		return earlier(after, controller.StaleCacheDelay) // no other before it is closed
	}
	for _, sw := range pending(o) {
		after = earlier(after, flipTime(o.machine, sw.Status.SeenAt).Sub(o.now))
	}
	return after
}

// earlier of two times to look again, of which those that are not positive say nothing.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}
