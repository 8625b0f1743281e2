// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
)

func parentNamed(name string) Key { return Key{Controller: "cc", Namespace: "ns", Name: name} }

var (
	broken    = &Problem{string(hook.ReasonStatus), "500"}
	badAnswer = &Problem{string(hook.ReasonInvalidJSON), "{"}
	refused   = &Problem{string(hook.ReasonInvalidChild), "no name"}
	suspended = &Problem{string(hook.ReasonSuspended), "not answering"}
)

// few is a number of parents of which not all fail.
const few = 10

// report records the end of a sync, and reports whether something else is reported now.
func (f *failures) report(parent string, p *Problem) (changed bool) {
	f.conclude(parentNamed(parent), phaseSync, p == nil || !p.isOfCall(), nil, p)
	return f.haveChanged(few)
}

func TestReportedProblemIsStable(t *testing.T) {
	var f failures
	for i, step := range []struct {
		parent   string
		problem  *Problem
		changed  bool
		reported *Problem
		failing  int
	}{
		{"b", refused, true, refused, 1},
		{"b", refused, false, refused, 1},
		{"a", badAnswer, true, refused, 2},
		{"b", badAnswer, true, badAnswer, 2},
		{"b", refused, true, refused, 2},
		{"c", refused, true, refused, 3},
		{"c", nil, true, refused, 2},
		{"b", nil, true, badAnswer, 1}, // a still fails
		{"a", nil, true, nil, 0},
		{"a", nil, false, nil, 0},
	} {
		if changed := f.report(step.parent, step.problem); changed != step.changed {
			t.Errorf("step %d: changed is %t, want %t", i, changed, step.changed)
		}
		if got := f.current(few); got.Problem != step.reported || got.Failing != step.failing || got.General {
			t.Errorf("step %d: reported is %+v, want %v of %d", i, got, step.reported, step.failing)
		}
	}
}

// TestGeneralProblems: a problem of the hook or of rights concerns all parents, any other one only if each parent has one.
func TestGeneralProblems(t *testing.T) {
	unreachable, denied := &Problem{string(hook.ReasonUnreachable), "refused"}, &Problem{v1alpha1.ReasonForbidden, "no"}
	var f failures
	want := func(what string, parents int, want Failures) {
		t.Helper()
		if got := f.current(parents); !got.equal(want) {
			t.Errorf("%s: reported is %+v, want %+v", what, got, want)
		}
	}
	a := parentNamed("a").String()
	f.report("a", badAnswer)
	want("one of two fails", 2, Failures{Problem: badAnswer, Parent: a, Failing: 1, Parents: 2})
	if f.haveChanged(3) || !f.haveChanged(1) {
		t.Error("it has to be reported again when no other parent is left, and not for one more")
	}
	want("the only one fails", 1, Failures{Problem: badAnswer, General: true})
	f.report("b", unreachable)
	want("the hook cannot be reached", few, Failures{Problem: unreachable, General: true})
	f.report("c", denied)
	want("a right is missing, too", few, Failures{Problem: unreachable, General: true})
	f.report("b", nil)
	want("the hook has answered", few, Failures{Problem: denied, General: true})
	if f.haveChanged(few + 1) {
		t.Error("a problem of all parents is reported again for one more parent")
	}
	f.forget(parentNamed("c"))
	want("the parent is gone for which a right was missing", few, Failures{Problem: badAnswer, Parent: a, Failing: 1, Parents: few})
}

// TestFailureOfHookIsOfAllUntilItAnswers: a hook that fails for one parent is called about another one, which shows whether it fails for all.
func TestFailureOfHookIsOfAllUntilItAnswers(t *testing.T) {
	var f failures
	fails := func(parent string) (doubtful bool) {
		_, doubtful = f.conclude(parentNamed(parent), phaseSync, false, errors.New("500"), broken)
		return doubtful
	}
	want := func(what string, general bool, failing int) {
		t.Helper()
		if got := f.current(few); got.General != general || got.Failing != failing || got.Problem != broken {
			t.Errorf("%s: reported is %+v", what, got)
		}
	}
	f.report("b", refused)
	if !fails("a") {
		t.Error("no other parent is asked about")
	}
	want("nothing is known of others", true, 0)
	f.report("other", nil)
	f.report("b", nil)
	want("the hook has answered about another one", false, 1)
	if fails("a") {
		t.Error("the same parent fails once more, and is in doubt again")
	}
	want("the same parent fails once more", false, 1)
	if !fails("c") {
		t.Error("one more parent fails, and no other is asked about")
	}
	if got := f.current(few); !got.General {
		t.Errorf("one more parent fails: reported is %+v", got)
	}
	f.report("other", nil)
	f.conclude(parentNamed("a"), phaseSync, false, errors.New("suspended"), suspended)
	if got := f.current(few); !got.General || got.Problem != broken {
		t.Errorf("the hook is not called any more: reported is %+v", got)
	}
}

// Syncs may end faster than the status of the controller is written.
func TestFailsAgainBeforeTheReport(t *testing.T) {
	var f failures
	f.report("a", broken)
	f.current(few)
	f.report("a", nil)
	if !f.report("a", badAnswer) {
		t.Error("the problem of the parent that is reported has changed, and is not reported")
	}
	if got := f.current(few).Problem; got != badAnswer {
		t.Errorf("reported is %v, want %v", got, badAnswer)
	}
}

// TestUnknownErrorMendsNothing: a parent whose hook is broken is not mended by an API server that does not answer, but by a hook that does.
func TestUnknownErrorMendsNothing(t *testing.T) {
	var f failures
	a, b, unknown := parentNamed("a"), parentNamed("b"), errors.New("internal error")
	f.conclude(a, phaseSync, false, errors.New("broken"), broken)
	f.conclude(b, phaseSync, false, errors.New("suspended"), suspended)
	f.current(few)
	if wake, _ := f.conclude(a, phaseSync, false, unknown, nil); f.haveChanged(few) || len(wake) > 0 {
		t.Errorf("synced again are %v, reported is %+v, want it as before", wake, f.current(few))
	}
	if wake, _ := f.conclude(a, phaseSync, true, unknown, nil); f.current(few).Problem != suspended || len(wake) != 1 {
		t.Errorf("after an answer of the hook: reported is %+v, synced again are %v, want b", f.current(few), wake)
	}
	denied := &Problem{v1alpha1.ReasonForbidden, "no"}
	f.conclude(b, phaseSync, true, nil, nil)
	f.conclude(a, phaseSync, true, unknown, denied)
	if f.conclude(a, phaseSync, true, unknown, nil); f.current(few).Problem != denied {
		t.Errorf("what the hook does not mend: reported is %+v", f.current(few))
	}
	if f.conclude(a, phaseSync, true, nil, nil); f.current(few).Problem != nil {
		t.Errorf("after a success: reported is %+v", f.current(few))
	}
}

func TestOutageIsOneProblem(t *testing.T) {
	var f failures
	changes := 0
	for range 10 {
		for _, problem := range []*Problem{broken, suspended, {suspended.Reason, "not answering for 8s"}} {
			if f.report("a", problem) {
				changes++
			}
			f.current(few)
		}
	}
	if changes != 1 || f.current(few).Problem != broken {
		t.Errorf("an outage was reported %d times, at last as %v, want once, as %v", changes, f.current(few), broken)
	}
	if wake, _ := f.conclude(parentNamed("b"), phaseSync, true, nil, nil); !slices.Equal(wake, []Key{parentNamed("a")}) {
		t.Errorf("when the hook answers, synced again are %v, want a", wake)
	}
}

func TestHookAnswersAgain(t *testing.T) {
	var f failures
	f.conclude(parentNamed("a"), phaseSync, true, nil, suspended)
	f.conclude(parentNamed("b"), phaseSync, true, nil, suspended)
	f.conclude(parentNamed("c"), phaseSync, true, nil, broken)
	f.conclude(parentNamed("d"), phaseFinalize, true, nil, suspended)

	wake, _ := f.conclude(parentNamed("e"), phaseSync, true, nil, nil)
	slices.SortFunc(wake, func(a, b Key) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
	if want := []Key{parentNamed("a"), parentNamed("b")}; !slices.Equal(wake, want) {
		t.Errorf("synced again are %v, want %v", wake, want)
	}
	if wake, _ := f.conclude(parentNamed("f"), phaseSync, true, nil, nil); len(wake) > 0 {
		t.Errorf("synced again are %v, once more", wake)
	}
	if f.current(few).Problem == nil {
		t.Error("no problem is reported, though parents that were reported to try again have not succeeded yet")
	}
	if wake, _ := f.conclude(parentNamed("g"), phaseFinalize, true, nil, nil); !slices.Equal(wake, []Key{parentNamed("d")}) {
		t.Errorf("when the other hook answers, synced again are %v, want d", wake)
	}
}

func TestFailingHookIsCalledAboutAnotherParent(t *testing.T) {
	s := newSyncTest(t, startFakeAPI(t, string(parentWith(""))))
	queue := &queueOfNames{}
	s.Queue, s.Changed, s.called = queue, func() {}, phaseSync
	failed := hook.NewError(hook.ReasonStatus, "500")
	_, _ = s.finish(t.Context(), 0, failed)
	if got := queue.take(); len(got) > 0 {
		t.Errorf("queued are %v, and there is no other parent", got)
	}
	s.parentSync.answered = true
	_, _ = s.finish(t.Context(), 0, nil)
	s.parentSync.answered = false
	s.Controller.state(s.of, cache.NewObjectName("ns", "other"), "uid")
	_, _ = s.finish(t.Context(), 0, failed)
	if got := queue.take(); !slices.Equal(got, []string{"other"}) {
		t.Errorf("queued are %v, want the other parent", got)
	}
}
