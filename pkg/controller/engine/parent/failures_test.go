// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"slices"
	"testing"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
)

func parentNamed(name string) Key { return Key{Controller: "cc", Namespace: "ns", Name: name} }

var (
	broken    = &Problem{string(hook.ReasonStatus), "500"}
	badAnswer = &Problem{string(hook.ReasonInvalidJSON), "{"}
	suspended = &Problem{string(hook.ReasonSuspended), "not answering"}
)

func TestReportedProblemIsStable(t *testing.T) {
	var f failures
	for i, step := range []struct {
		parent   string
		problem  *Problem
		changed  bool
		reported *Problem
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
		if reported := f.current(); reported != step.reported {
			t.Errorf("step %d: reported is %v, want %v", i, reported, step.reported)
		}
	}
}

// Syncs may end faster than the status of the controller is written.
func TestFailsAgainBeforeTheReport(t *testing.T) {
	var f failures
	f.report(parentNamed("a"), phaseSync, broken)
	f.report(parentNamed("b"), phaseSync, broken)
	f.report(parentNamed("a"), phaseSync, nil)
	if changed, _ := f.report(parentNamed("a"), phaseSync, badAnswer); !changed {
		t.Error("the problem of the parent that is reported has changed, and is not reported")
	}
	if f.current() != badAnswer {
		t.Errorf("reported is %v, want %v", f.current(), badAnswer)
	}
}

// TestUnknownErrorMendsNothing: a parent whose hook is broken is not mended by an API server that does not answer, but by a hook that does.
func TestUnknownErrorMendsNothing(t *testing.T) {
	var f failures
	a, b, unknown := parentNamed("a"), parentNamed("b"), errors.New("internal error")
	f.conclude(a, phaseSync, false, errors.New("broken"), broken)
	f.conclude(b, phaseSync, false, errors.New("suspended"), suspended)
	changed, wake := f.conclude(a, phaseSync, false, unknown, nil)
	if changed || len(wake) > 0 || f.current() != broken {
		t.Errorf("changed %t, synced again are %v, reported is %v, want %v as before", changed, wake, f.current(), broken)
	}
	if changed, wake = f.conclude(a, phaseSync, true, unknown, nil); !changed || len(wake) != 1 {
		t.Errorf("after an answer of the hook: changed %t, synced again are %v, want b", changed, wake)
	}
	denied := &Problem{v1alpha1.ReasonForbidden, "no"}
	f.conclude(b, phaseSync, true, nil, nil)
	f.conclude(a, phaseSync, true, unknown, denied)
	if changed, _ = f.conclude(a, phaseSync, true, unknown, nil); changed || f.current() != denied {
		t.Errorf("what the hook does not mend: changed %t, reported is %v", changed, f.current())
	}
	if changed, _ = f.conclude(a, phaseSync, true, nil, nil); !changed || f.current() != nil {
		t.Errorf("after a success: changed %t, reported is %v", changed, f.current())
	}
}

func TestOutageIsOneProblem(t *testing.T) {
	var f failures
	changes := 0
	for range 10 {
		for _, problem := range []*Problem{broken, suspended, {suspended.Reason, "not answering for 8s"}} {
			if changed, _ := f.report(parentNamed("a"), phaseSync, problem); changed {
				changes++
			}
		}
	}
	if changes != 1 || f.current() != broken {
		t.Errorf("an outage was reported %d times, at last as %v, want once, as %v", changes, f.current(), broken)
	}
	if _, wake := f.report(parentNamed("b"), phaseSync, nil); !slices.Equal(wake, []Key{parentNamed("a")}) {
		t.Errorf("when the hook answers, synced again are %v, want a", wake)
	}
}

func TestHookAnswersAgain(t *testing.T) {
	var f failures
	f.report(parentNamed("a"), phaseSync, suspended)
	f.report(parentNamed("b"), phaseSync, suspended)
	f.report(parentNamed("c"), phaseSync, broken)
	f.report(parentNamed("d"), phaseFinalize, suspended)

	_, wake := f.report(parentNamed("e"), phaseSync, nil)
	slices.SortFunc(wake, func(a, b Key) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
	if want := []Key{parentNamed("a"), parentNamed("b")}; !slices.Equal(wake, want) {
		t.Errorf("synced again are %v, want %v", wake, want)
	}
	if _, wake := f.report(parentNamed("f"), phaseSync, nil); len(wake) > 0 {
		t.Errorf("synced again are %v, once more", wake)
	}
	if f.current() == nil {
		t.Error("no problem is reported, though parents that were reported to try again have not succeeded yet")
	}
	if _, wake := f.report(parentNamed("g"), phaseFinalize, nil); !slices.Equal(wake, []Key{parentNamed("d")}) {
		t.Errorf("when the other hook answers, synced again are %v, want d", wake)
	}
}
