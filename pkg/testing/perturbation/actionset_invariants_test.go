// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/perturbation"
)

// effectsAre checks that the phases of each action had exactly these effects, in this order, each while the phase was running in the
// newest status.
func effectsAre(want [][]string) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		got, states := make([][]string, len(want)), map[string]string{}
		sets := map[types.UID]*v1alpha1.ActionSet{}
		for _, change := range history {
			if change.Resource == actionSets {
				set, err := typed[v1alpha1.ActionSet](change.Object)
				if err != nil {
					return err
				}
				switch {
				case change.Deleted:
					delete(sets, set.UID)
				case set.Status != nil:
					sets[set.UID] = set
				}
				continue
			}
			object := change.Resource.Resource + "/" + change.Object.GetName()
			state, err := effectOn(change)
			if err != nil {
				return err
			}
			if state == states[object] {
				continue
			}
			states[object] = state
			if action, by := causeOf(change, sets); by != "" {
				got[action] = append(got[action], by+": "+state)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("effects (-want +got):\n%s", diff)
		}
		return nil
	}
}

// effectOn returns the state of an object after a change.
func effectOn(change perturbation.Change) (string, error) {
	switch {
	case change.Deleted:
		return change.Object.GetName() + " is gone", nil
	case change.Resource == configMaps:
		value, _, err := unstructured.NestedString(change.Object.Object, "data", "value")
		return change.Object.GetName() + "=" + value, err
	}
	deployment, err := typed[appsv1.Deployment](change.Object)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s x%d", deployment.Name, ptr.Deref(deployment.Spec.Replicas, 1)), nil
}

// causeOf returns the action and the phase that caused an effect: those of the mark on the object, or else the running ones. The phase is
// "" for an effect of the user.
func causeOf(change perturbation.Change, sets map[types.UID]*v1alpha1.ActionSet) (action int, by string) {
	annotation := phase.AnnotationPhase
	if change.Resource == deployments {
		annotation = phase.AnnotationScaled
	}
	mark := change.Object.GetAnnotations()[annotation]
	for uid, set := range sets {
		for i := range set.Status.Actions {
			for p, of := range phasesOf(&set.Status.Actions[i]) {
				running := of.State == v1alpha1.StateRunning
				its := fmt.Sprintf("%s.%d.%s", uid, i, indexOf(p))
				switch {
				case (mark == its || strings.HasPrefix(mark, its+".")) && !change.Deleted: // what follows is a nonce
					if !running {
						return i, fmt.Sprintf("%s, which is %s", of.Name, of.State)
					}
					return i, of.Name
				case mark == "" && running:
					action, by = i, of.Name
				}
			}
		}
	}
	if mark != "" && !change.Deleted {
		return 0, "a phase of an ActionSet that is deleted or has not begun"
	}
	return action, by
}

func indexOf(p int) string {
	if p == 0 {
		return "defer"
	}
	return fmt.Sprint(p - 1)
}

// phasesOf returns the phases of an action, the deferPhase first.
func phasesOf(action *v1alpha1.ActionStatus) []v1alpha1.Phase {
	return append([]v1alpha1.Phase{action.DeferPhase}, action.Phases...)
}

// requestedOnce checks that each effect had one successful request, by any instance, and each snapshot at most one. A request without an answer
// may have been the successful one. Late writes are not counted: they must not have an effect.
func requestedOnce(effects [][]string, snapshots int) func([]perturbation.Change, []perturbation.Write) error {
	return func(_ []perturbation.Change, writes []perturbation.Write) error {
		gotEffects, gotSnapshots, unanswered := 0, 0, 0
		for _, write := range writes {
			switch {
			case write.Code >= 300:
			case write.Resource == configMaps.Resource || write.Resource == deployments.Resource:
				if write.Code == 0 {
					unanswered++
				} else {
					gotEffects++
				}
			case write.Resource == secrets.Resource && write.Verb == "create" && write.Code != 0:
				gotSnapshots++
			}
		}
		if want := len(slices.Concat(effects...)); gotEffects > want || gotEffects+unanswered < want {
			return fmt.Errorf("got %d successful requests for effects and %d without an answer, want %d: %+v", gotEffects, unanswered, want, writes)
		}
		if gotSnapshots > snapshots {
			return fmt.Errorf("got %d snapshots, want at most %d: %+v", gotSnapshots, snapshots, writes)
		}
		return nil
	}
}

// ranks orders the states: a state never changes to one of a lower or the same rank.
var ranks = map[v1alpha1.State]int{v1alpha1.StatePending: 1, v1alpha1.StateRunning: 2, v1alpha1.StateFailed: 3, v1alpha1.StateComplete: 3}

// statesGoOn checks that no state of an ActionSet or of a phase goes back, that nothing changes after its end, and that the phases of an
// action run one after the other. After a phase that was not completed only the deferPhase runs, and it is always the last.
func statesGoOn(history []perturbation.Change) error {
	last := map[types.UID]*v1alpha1.ActionSet{}
	for _, change := range history {
		if change.Resource != actionSets || change.Deleted {
			continue
		}
		set, err := typed[v1alpha1.ActionSet](change.Object)
		if err != nil {
			return err
		}
		before := last[set.UID]
		last[set.UID] = set
		if before != nil && before.Status != nil {
			err = goesOn(before.Status, set.Status)
		}
		if err == nil && set.Status != nil {
			err = inOrder(set.Status)
		}
		if err != nil {
			return fmt.Errorf("at version %s %w", set.ResourceVersion, err)
		}
	}
	return nil
}

func goesOn(before, after *v1alpha1.ActionSetStatus) error {
	if after == nil {
		return errors.New("the status was removed")
	}
	if goesBack(before.State, after.State) {
		return fmt.Errorf("the state goes from %s to %s", before.State, after.State)
	}
	if before.CompletionTime != nil && !equality.Semantic.DeepEqual(before, after) {
		return fmt.Errorf("the status changes after the end:\n%s", cmp.Diff(before, after))
	}
	for i := range before.Actions {
		was, is := phasesOf(&before.Actions[i]), phasesOf(&after.Actions[i])
		for p := range was {
			if goesBack(was[p].State, is[p].State) {
				return fmt.Errorf("phase %s goes from %s to %s", was[p].Name, was[p].State, is[p].State)
			}
			if ranks[was[p].State] == 3 && !equality.Semantic.DeepEqual(was[p], is[p]) {
				return fmt.Errorf("phase %s changes after its end:\n%s", was[p].Name, cmp.Diff(was[p], is[p]))
			}
		}
	}
	return nil
}

func goesBack(before, after v1alpha1.State) bool {
	return before != after && ranks[after] <= ranks[before]
}

// Patterns for the states of an action's phases: phasesInOrder always, phasesOver from the start of the deferPhase on.
var (
	phasesInOrder = regexp.MustCompile(`^(complete )*((running|failed) )?(pending )*$`)
	phasesOver    = regexp.MustCompile(`^(complete )*(failed (pending )*)?$`)
)

func inOrder(status *v1alpha1.ActionSetStatus) error {
	for i := range status.Actions {
		var states strings.Builder
		for _, p := range status.Actions[i].Phases {
			states.WriteString(string(p.State) + " ")
		}
		deferred := status.Actions[i].DeferPhase.State
		if begun := ranks[deferred] > 1; !phasesInOrder.MatchString(states.String()) || begun && !phasesOver.MatchString(states.String()) {
			return fmt.Errorf("the phases of action %d are %s, and its deferPhase %s", i, states.String(), deferred)
		}
	}
	return nil
}
