// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/testing/perturbation"
)

// lives are the states of the children of one name, one child after the other.
type lives = [][]string

// childrenPassThrough checks that the history has exactly these children, and that each passes through exactly these states. A child that is
// created just after its parent was deleted does not count: the controller's cache may be stale, and the garbage collector deletes the child.
func childrenPassThrough(want map[string]lives) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		got := map[string]lives{}
		live, passedOver, gone := map[string]bool{}, map[types.UID]bool{}, map[types.UID]bool{}
		for _, change := range history {
			if change.Resource == widgets && change.Deleted {
				gone[change.Object.GetUID()] = true
			}
			child := childOf(change)
			if child == "" {
				continue
			}
			if owner := metav1.GetControllerOf(change.Object); !live[child] && owner != nil && gone[owner.UID] {
				passedOver[change.Object.GetUID()] = true
			}
			switch {
			case passedOver[change.Object.GetUID()]:
				continue
			case change.Deleted:
				live[child] = false
				continue
			case !live[child]:
				live[child] = true
				got[child] = append(got[child], nil)
			}
			last := len(got[child]) - 1
			if states, now := got[child][last], childState(change.Object); len(states) == 0 || states[len(states)-1] != now {
				got[child][last] = append(states, now)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("states of the children (-want +got):\n%s", diff)
		}
		return nil
	}
}

// targetPassesThrough checks that the target passes through exactly these states, in the format of decorationOf.
func targetPassesThrough(want []string) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		var got []string
		for _, change := range history {
			if change.Resource != widgets || change.Deleted {
				continue
			}
			if now := decorationOf(change.Object); len(got) == 0 || got[len(got)-1] != now {
				got = append(got, now)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("states of the target (-want +got):\n%s", diff)
		}
		return nil
	}
}

// decorationOf returns the label, the annotation and the status that the hook desires of a target: "a/a/a".
func decorationOf(target *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedString(target.Object, "status", "value")
	return target.GetLabels()[decoration] + "/" + target.GetAnnotations()[decoration] + "/" + status
}

// childOf returns the resource and the name of the child that has changed, or "".
func childOf(change perturbation.Change) string {
	if (change.Resource != configMaps && change.Resource != secrets) || !strings.HasPrefix(change.Object.GetName(), name+"-") {
		return ""
	}
	return change.Resource.Resource + "/" + change.Object.GetName()
}

// noChildIsCreatedTwice checks that no instance has more creates for a name answered than there were children of the name. An instance has to
// remember a child that it has created or found, even if its watch has not reported it.
func noChildIsCreatedTwice(history []perturbation.Change, writes []perturbation.Write) error {
	lives, live := map[string]int{}, map[string]bool{}
	for _, change := range history {
		if child := childOf(change); child != "" {
			if !change.Deleted && !live[child] {
				lives[child]++
			}
			live[child] = !change.Deleted
		}
	}
	type create struct {
		instance int
		child    string
	}
	creates := map[create]int{}
	var errs []error
	for _, write := range writes {
		if write.Verb != "create" || write.Code == 0 || write.Resource == ownChildren { // of which there is no history
			continue
		}
		c := create{write.Instance, write.Resource + "/" + write.Name}
		if creates[c]++; creates[c] > lives[c.child] {
			errs = append(errs, fmt.Errorf("got %d creates of %s by instance %d, want %d; the last was answered %s",
				creates[c], c.child, c.instance, lives[c.child], http.StatusText(write.Code)))
		}
	}
	return errors.Join(errs...)
}
