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
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/testing/perturbation"
)

// lives are the states that the children of one name go through, one child after the other.
type lives = [][]string

// childrenGoThrough: in the whole history there are these children and no others, never two of a name at a time, and each goes through
// these states and no others. One that is made for a parent which had just gone is none: the controller may not have been told, and the
// garbage collector takes it.
func childrenGoThrough(want map[string]lives) func([]perturbation.Change) error {
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
			return fmt.Errorf("the children went through other states (- asked for, + were):\n%s", diff)
		}
		return nil
	}
}

// childOf is the child that a change is of: its resource and name, or "".
func childOf(change perturbation.Change) string {
	if (change.Resource != configMaps && change.Resource != secrets) || !strings.HasPrefix(change.Object.GetName(), name+"-") {
		return ""
	}
	return change.Resource.Resource + "/" + change.Object.GetName()
}

// noChildIsCreatedTwice: no instance asks for a child more often than there came to be one of the name. What it has made, or has seen to
// be there, it knows of, whether its watch has shown that or not.
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
	type asking struct {
		instance int
		child    string
	}
	asked := map[asking]int{}
	var errs []error
	for _, write := range writes {
		if write.Verb != "create" {
			continue
		}
		by := asking{write.Instance, write.Resource + "/" + write.Name}
		if asked[by]++; asked[by] > lives[by.child] {
			errs = append(errs, fmt.Errorf("instance %d asks for %s %d times, the last time in vain (%s), and there were %d",
				by.instance, by.child, asked[by], http.StatusText(write.Code), lives[by.child]))
		}
	}
	return errors.Join(errs...)
}
