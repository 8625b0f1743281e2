// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

var (
	errNoRight = apierrors.NewForbidden(secretsResource.GroupResource(), "actionset-run-uid-s", errors.New("no RoleBinding"))
	// errNoKey is the answer if the key with which a Secret was encrypted is lost.
	errNoKey = apierrors.NewInternalError(errors.New("unable to transform key"))
)

// withUnread runs a test while the snapshot of a run in its second phase cannot be read by the process, which has just started.
func withUnread(t *testing.T, why error, test func(t *testing.T, a *apiServer)) {
	t.Helper()
	deferred := configMapPhase("bye")
	action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{configMapPhase("one"), waitFor("flag")}, DeferPhase: &deferred}
	inBubble(t, newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
		a.createConfigMap("flag", "false")
		a.startProcess()
		a.wait(time.Minute)
		a.restartUnread(why)
		test(t, a)
	})
}

// restartUnread starts another process, which cannot read snapshots.
func (a *apiServer) restartUnread(why error) {
	a.stopProcess()
	a.refuseSnapshot(why)
	a.startProcess()
}

func (a *apiServer) refuseSnapshot(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = func(request string) error {
		if request == "get secrets" && strings.HasPrefix(a.object, "actionset-run-") {
			return why
		}
		return nil
	}
}

const (
	waitsForSnapshot = "running go[ one=complete long=running defer bye=pending ]"
	unreadLine       = "the run waits for its snapshot, which cannot be read since "
)

// progressing is the message of Progressing.
func (a *apiServer) progressing() string {
	return meta.FindStatusCondition(a.set().Status.Conditions, v1alpha1.ConditionProgressing).Message
}

// A run whose snapshot cannot be read waits, shows it, and goes on when it can be read again.
func TestRunWaitsForUnreadSnapshot(t *testing.T) {
	for _, why := range []error{errNoRight, errNoKey} {
		withUnread(t, why, func(t *testing.T, a *apiServer) {
			phases := a.progressing()
			if !strings.Contains(phases, "phase long waits for ") {
				t.Fatalf("Progressing has the message %s", phases)
			}
			a.takeRequests()
			a.wait(waitingShownAfter / 2)
			if got := a.progressing(); got != phases {
				t.Errorf("after a short failure, Progressing has the message %s", got)
			}
			a.waitInOutage()
			before := a.progressing()
			line, rest, _ := strings.Cut(before, "\n")
			if a.states() != waitsForSnapshot || !strings.HasPrefix(line, unreadLine) || !strings.Contains(line, why.Error()) || rest != phases {
				t.Errorf("the states are %s, and Progressing has the message %s", a.states(), before)
			}
			others := slices.DeleteFunc(a.takeRequests(), func(request string) bool { return request == "get secrets" })
			a.wantEqual("requests, apart from those for the snapshot", others, "update actionsets/status")
			a.stopProcess()
			a.startProcess()
			a.waitInOutage()
			if got := a.progressing(); got != before {
				t.Errorf("another process has the message %s, want %s", got, before)
			}
			a.answerAll()
			a.waitInOutage()
			if got := a.progressing(); a.states() != waitsForSnapshot || strings.Contains(got, unreadLine) {
				t.Errorf("when it can be read again, the states are %s, and Progressing has the message %s", a.states(), got)
			}
			a.refuseSnapshot(why)
			a.withMemory(dropSnapshot) // to save memory
			a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"edited": "yes"} })
			a.wait(time.Minute)
			if got, _, _ := strings.Cut(a.progressing(), "\n"); !strings.HasPrefix(got, unreadLine) || got == line {
				t.Errorf("when it cannot be read once more, Progressing has the line %s, before it had %s", got, line)
			}
		})
	}
}

// withMemory uses the memory of the process, which does nothing meanwhile.
func (a *apiServer) withMemory(use func(m *memory)) {
	synctest.Wait()
	a.controller.memories.UpdateKnown(cache.NewObjectName("ns", "s"), use)
}

func dropSnapshot(m *memory) { m.snapshot = nil }

// A round in which the snapshot cannot be read is not over: after it the next sync would begin with the first phase again.
func TestRoundOfUnreadRun(t *testing.T) {
	withUnread(t, errNoRight, func(t *testing.T, a *apiServer) {
		a.wait(time.Second)
		a.withMemory(func(m *memory) { m.round = &round{done: sets.New[roundKey]()} })
		a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"edited": "yes"} })
		a.wait(time.Minute)
		a.withMemory(func(m *memory) {
			if m.round == nil {
				t.Error("the round is over")
			}
		})
	})
}

// A run whose snapshot cannot be read can be cancelled and deleted. Until its time is over, its deferPhase runs if the snapshot can be read again.
func TestUnreadRunIsCancelled(t *testing.T) {
	const (
		cancelled = "failed go[ one=complete long=failed defer bye=complete ] ended"
		lost      = "failed go[ one=complete long=failed defer bye=pending ] ended"
	)
	for name, test := range map[string]struct {
		why   error
		do    func(a *apiServer)
		after time.Duration // when it can be read again; 0 if it cannot
		want  string
	}{
		"cancelled, and read again":    {errNoRight, cancelSet, stopLimit + deferLimit - time.Minute, cancelled},
		"cancelled without a right":    {errNoRight, cancelSet, 0, lost},
		"deleted, and read again":      {errNoKey, (*apiServer).delete, stopLimit + deferLimit - time.Minute, "gone"},
		"deleted without a right":      {errNoRight, (*apiServer).delete, 0, "gone"},
		"deleted without a key":        {errNoKey, (*apiServer).delete, 0, "gone"},
		"cancelled and deleted":        {errNoRight, func(a *apiServer) { cancelSet(a); a.delete() }, 0, "gone"},
		"cancelled before the restart": {errNoRight, func(a *apiServer) { cancelSet(a); a.restartUnread(errNoRight) }, 0, lost},
	} {
		t.Run(name, func(t *testing.T) {
			withUnread(t, test.why, func(t *testing.T, a *apiServer) {
				a.wait(time.Minute)
				test.do(a)
				a.wait(stopLimit + deferLimit - time.Minute)
				cancelled := meta.FindStatusCondition(a.set().Status.Conditions, v1alpha1.ConditionCancelled)
				if hasFinished(a.set().Status) || cancelled == nil {
					t.Fatalf("a minute before its time is over, the states are %s, with the condition Cancelled %v", a.states(), cancelled)
				}
				if test.after > 0 {
					a.answerAll()
				}
				a.wait(time.Minute + time.Second)
				explained := func(of *v1alpha1.ActionSetStatus) bool {
					return test.after > 0 || strings.HasSuffix(of.Error.Message, test.why.Error())
				}
				if set := a.set(); set != nil && (!hasFinished(set.Status) || !explained(set.Status)) {
					t.Errorf("the states are %s, with the error %q", a.states(), set.Status.Error.Message)
				}
				a.takeEvents()
				a.wait(cleanUpLimit + 2*time.Minute)
				if test.after == 0 {
					wantWarningsOf(t, a, test.why.Error(), "s: Warning CleanUpFailed: The clean-up of the run fails",
						"s: Warning CleanUpFailed: The clean-up of the run was refused for 5m0s, and is given up")
				}
				if got := a.states(); got != test.want {
					t.Errorf("the states are %s, want %s", got, test.want)
				}
				if set := a.set(); set != nil && len(set.Finalizers) > 0 {
					t.Errorf("it has the finalizers %q", set.Finalizers)
				}
				if left := a.count(secretsResource); (left > 0) != (test.after == 0) {
					t.Errorf("%d Secrets are left", left)
				}
			})
		})
	}
}

// A lost key holds the finalizer of a run that has ended only until the ActionSet is deleted: before that, nothing waits for it.
func TestFinalizerOfUndecryptableRun(t *testing.T) {
	withUnread(t, errNoKey, func(t *testing.T, a *apiServer) {
		cancelSet(a)
		a.waitHour()
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) == 0 {
			t.Errorf("the states are %s, with the finalizers %q", a.states(), set.Finalizers)
		}
		a.delete()
		a.wait(cleanUpLimit + 2*time.Minute)
		if got := a.states(); got != "gone" {
			t.Errorf("the states are %s", got)
		}
	})
}

// An outage between two refusals is no part of them.
func TestOutageBetweenRefusals(t *testing.T) {
	withUnread(t, errNoRight, func(t *testing.T, a *apiServer) {
		cancelSet(a)
		a.wait(stopLimit + deferLimit + time.Minute)
		a.refuseSnapshot(apierrors.NewServiceUnavailable("later"))
		a.wait(2 * cleanUpLimit)
		a.refuseSnapshot(errNoRight)
		a.wait(cleanUpLimit - time.Minute)
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) == 0 {
			t.Errorf("the states are %s, with the finalizers %q", a.states(), set.Finalizers)
		}
	})
}

// An answer of a proxy that does not reach the API server is no refusal, however long it lasts.
func TestProxyFailsWhileSnapshotIsRead(t *testing.T) {
	badGateway := apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", secretsResource.GroupResource(), "x", "bad gateway", 0, true)
	withUnread(t, badGateway, func(t *testing.T, a *apiServer) {
		a.wait(time.Minute)
		if got := a.progressing(); strings.Contains(got, unreadLine) {
			t.Errorf("Progressing has the message %s", got)
		}
		a.delete()
		a.waitHour()
		if a.set() == nil || a.secret() == nil {
			t.Fatalf("the states are %s", a.states())
		}
		a.answerAll()
		a.wait(2 * time.Minute)
		if got := a.states(); got != "gone" || a.secret() != nil {
			t.Errorf("when it is reached again, the states are %s, and the Secret is left: %t", got, a.secret() != nil)
		}
	})
}

// The deletion of a snapshot that is not kept in memory, and so is read in each sync, is given up, too.
func TestRefusedDeletionOfReadSnapshot(t *testing.T) {
	withUnread(t, nil, func(t *testing.T, a *apiServer) {
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete secrets" {
				return errNoRight
			}
			return nil
		}
		a.mu.Unlock()
		a.delete()
		for range 2 * int(cleanUpLimit/time.Minute) {
			a.wait(time.Minute)
			a.withMemory(dropSnapshot)
		}
		if got := a.states(); got != "gone" {
			t.Errorf("the states are %s", got)
		}
	})
}

func cancelSet(a *apiServer) { a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true }) }

// A run whose deferPhase has begun before the process was replaced has its whole time after the first failure to read its snapshot.
func TestLateFailureToReadSnapshot(t *testing.T) {
	withUnread(t, nil, func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if strings.HasSuffix(request, " configmaps") { // the deferPhase cannot end
				return outage(request)
			}
			return nil
		}
		cancelSet(a)
		a.wait(stopLimit + deferLimit - time.Minute)
		a.restartUnread(errNoRight)
		a.wait(stopLimit + deferLimit - time.Minute)
		if got := a.states(); hasFinished(a.set().Status) {
			t.Errorf("the states are %s", got)
		}
		a.wait(2 * time.Minute)
		if got := a.states(); !hasFinished(a.set().Status) {
			t.Errorf("after its time, the states are %s", got)
		}
	})
}

// A run that another controller has started ends although a snapshot that was created before cannot be read. The finalizer stays until that was tried for a
// while.
func TestUnreadSnapshotOfForeignRun(t *testing.T) {
	withEarlierSecret(t, func(*corev1.Secret) {}, func(t *testing.T, a *apiServer) {
		a.edit(func(set *v1alpha1.ActionSet) { set.Status = storedSet(t, "running").Status })
		a.restartUnread(errNoRight)
		a.wait(time.Minute)
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) == 0 {
			t.Errorf("the states are %s, with the finalizers %q", a.states(), set.Finalizers)
		}
		a.wait(cleanUpLimit + 2*time.Minute)
		if set := a.set(); len(set.Finalizers) > 0 {
			t.Errorf("in the end it has the finalizers %q", set.Finalizers)
		}
	})
}

// A run whose snapshot cannot be read is cancelled, not lost, if the API server refuses its status as too large.
func TestUnreadRunWithStatusTooLarge(t *testing.T) {
	set := newSet("go")
	status := initialStatus(observe(set), &snapshot{}, nil)
	set.Status = &status
	o := observe(set)
	o.statusTooLarge, o.leftUnknown = "too large", true
	o.waiting = map[phaseKey]phaseWait{ofSnapshot.phaseKey: {}}
	o.set.Status.Actions = []v1alpha1.ActionStatus{{Name: "go", Phases: []v1alpha1.Phase{{Name: "one", State: v1alpha1.StateRunning}}}}
	written := decide(o).Steps[0].(writeStatus).status
	if hasFinished(&written) || !isReduced(&written) {
		t.Errorf("it writes %s, with the conditions %v", describeStatus(&written), written.Conditions)
	}
}

// The Pods of a cancelled run whose snapshot cannot be read are removed after its end: the phases may succeed until then.
func TestPodsOfUnreadRun(t *testing.T) {
	for name, deferred := range map[string]bool{"phase": false, "deferPhase": true} {
		for _, why := range []error{errNoRight, errNoKey} {
			t.Run(name, func(t *testing.T) {
				action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{task("one")}}
				if deferred {
					action.Phases[0] = configMapPhase("one")
				}
				action = withDefer(action, "KubeTask", "bye")
				inBubble(t, newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
					a.startProcess()
					a.wait(time.Minute)
					a.restartUnread(why)
					cancelSet(a)
					a.wait(time.Minute)
					if left := a.count(podsResource); hasFinished(a.set().Status) || left != 1 {
						t.Fatalf("a minute after the cancellation, the states are %s, and %d Pods are left", a.states(), left)
					}
					a.takeRequests()
					a.wait(stopLimit + deferLimit - 2*time.Minute)
					if n := a.podRequests(); n > 0 {
						t.Errorf("%d requests for Pods while the run waits", n)
					}
					a.wait(2 * time.Minute)
					if left, set := a.count(podsResource), a.set(); !hasFinished(set.Status) || left > 0 || len(set.Finalizers) == 0 {
						t.Errorf("a minute after the end, the states are %s, %d Pods are left, and the finalizers are %q", a.states(), left, set.Finalizers)
					}
					a.answerAll()
					a.wait(2 * time.Minute)
					if set := a.set(); len(set.Finalizers) > 0 || a.count(secretsResource) > 0 {
						t.Errorf("when it can be read again, %d Secrets are left, and the finalizers are %q", a.count(secretsResource), set.Finalizers)
					}
				})
			})
		}
	}
}

// The message of a failure may look like the line of a run that waits. It does not prolong the wait.
func TestForgedLineOfUnreadRun(t *testing.T) {
	withUnread(t, errNoRight, func(t *testing.T, a *apiServer) {
		a.wait(time.Second)
		a.edit(func(set *v1alpha1.ActionSet) {
			meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing).Message = unreadLine + "2999-01-01T00:00:00Z"
		})
		a.restartUnread(errNoRight)
		cancelSet(a)
		a.wait(stopLimit + deferLimit + time.Minute)
		if !hasFinished(a.set().Status) {
			t.Errorf("the states are %s, and Progressing has the message %s", a.states(), a.progressing())
		}
	})
}

// A refusal long before does not count when the snapshot was read since.
func TestRefusalBeforeSnapshotIsRead(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.wait(2 * time.Minute)
		a.stopProcess()
		cancelSet(a)
		answers := map[string]error{"get secrets": errNoRight, "delete pods": outage("pods"), "get pods": outage("pods")}
		a.refuse = func(request string) error { return answers[request] }
		a.startProcess()
		next := func(after time.Duration, request string, answer error) {
			a.wait(after)
			a.mu.Lock()
			answers[request] = answer
			a.mu.Unlock()
		}
		next(stopLimit+deferLimit+time.Minute, "get secrets", nil)
		next(2*cleanUpLimit, "delete secrets", errNoRight)
		next(0, "get pods", nil)
		next(0, "delete pods", nil)
		a.wait(cleanUpLimit - time.Minute)
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) == 0 {
			t.Errorf("the states are %s, with the finalizers %q", a.states(), set.Finalizers)
		}
		a.wait(3 * time.Minute)
		if set := a.set(); len(set.Finalizers) > 0 {
			t.Errorf("when it was refused for a while, the finalizers are %q", set.Finalizers)
		}
	})
}

// While the snapshot cannot be read, it is not known what ended phases may have left, and nothing is looked for.
func TestUnreadRunLooksForNoPods(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.wait(2 * time.Minute)
		a.takeRequests()
		a.restartUnread(errNoRight)
		a.waitInOutage()
		if n := a.podRequests(); n > 0 {
			t.Errorf("%d requests for Pods", n)
		}
	})
}
