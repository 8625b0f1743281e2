// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"slices"
	"testing"

	"millwright.dev/pkg/hook"
)

func parentNamed(name string) key { return key{controller: "cc", namespace: "ns", name: name} }

var (
	broken    = &problem{string(hook.ReasonStatus), "500"}
	badAnswer = &problem{string(hook.ReasonInvalidJSON), "{"}
	suspended = &problem{string(hook.ReasonSuspended), "not answering"}
)

func TestTheProblemThatIsToldStaysTheSameWhileItsParentFails(t *testing.T) {
	var f failures
	for i, step := range []struct {
		parent  string
		problem *problem
		changed bool
		told    *problem
	}{
		{"b", broken, true, broken},
		{"b", broken, false, broken},
		{"a", badAnswer, false, broken},
		{"b", badAnswer, true, badAnswer},
		{"b", broken, true, broken},
		{"c", broken, false, broken},
		{"c", nil, false, broken},
		{"b", nil, true, badAnswer}, // a still fails
		{"a", nil, true, nil},
		{"a", nil, false, nil},
	} {
		changed, _ := f.report(parentNamed(step.parent), phaseSync, step.problem)
		if changed != step.changed {
			t.Errorf("step %d: changed is %t, want %t", i, changed, step.changed)
		}
		if told := f.current(); told != step.told {
			t.Errorf("step %d: told is %v, want %v", i, told, step.told)
		}
	}
}

func TestWhenAHookAnswersAgainTheParentsThatWaitForItAreSyncedOnce(t *testing.T) {
	var f failures
	f.report(parentNamed("a"), phaseSync, suspended)
	f.report(parentNamed("b"), phaseSync, suspended)
	f.report(parentNamed("c"), phaseSync, broken)
	f.report(parentNamed("d"), phaseFinalize, suspended)

	_, wake := f.report(parentNamed("e"), phaseSync, nil)
	slices.SortFunc(wake, func(a, b key) int { return slices.Compare([]byte(a.name), []byte(b.name)) })
	if want := []key{parentNamed("a"), parentNamed("b")}; !slices.Equal(wake, want) {
		t.Errorf("synced again are %v, want %v", wake, want)
	}
	if _, wake := f.report(parentNamed("f"), phaseSync, nil); len(wake) > 0 {
		t.Errorf("synced again are %v, once more", wake)
	}
	if f.current() == nil {
		t.Error("no problem is told, though parents that were told to try again have not succeeded yet")
	}
	if _, wake := f.report(parentNamed("g"), phaseFinalize, nil); !slices.Equal(wake, []key{parentNamed("d")}) {
		t.Errorf("when the other hook answers, synced again are %v, want d", wake)
	}
}
