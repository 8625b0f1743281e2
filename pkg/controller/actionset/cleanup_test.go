// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// taskThenWait is a Blueprint whose action has a Pod in the namespace app, waits for the ConfigMap c, and then creates the ConfigMap last.
func taskThenWait() *v1alpha1.Blueprint {
	inApp, deferred := task("one"), configMapPhase("last")
	inApp.Args = rawArgs(strings.Replace(validArgs["KubeTask"], `"ns"`, `"app"`, 1))
	return newBlueprint(map[string]v1alpha1.BlueprintAction{
		"go": {Phases: []v1alpha1.BlueprintPhase{inApp, waitFor("c")}, DeferPhase: &deferred},
	})
}

// inSecondPhase runs a test with a run of taskThenWait whose first phase has ended, and whose second phase runs. The rights in the namespace app are refused
// as long as refused is true.
func inSecondPhase(t *testing.T, test func(t *testing.T, a *apiServer, refused *bool)) {
	t.Helper()
	inBubble(t, newSet("go"), taskThenWait(), func(t *testing.T, a *apiServer) {
		a.namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}})
		a.createConfigMap("c", "no")
		refused, kept := new(bool), false
		a.refuse = func(request string) error {
			if *refused && strings.HasSuffix(request, " pods") || kept && request == "delete pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.startProcess()
		// Without its log the Pod has succeeded after a while.
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		kept = true // the first process cannot remove the Pod
		pods.Update("app", pods.List()[0].Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		a.wait(30 * time.Second)
		a.mu.Lock()
		kept = false
		a.mu.Unlock()
		if got, want := a.states(), "running go[ one=complete long=running defer last=pending ]"; got != want {
			t.Fatalf("the states are %s, want %s", got, want)
		}
		test(t, a, refused)
	})
}

// A role of a user may lack the right to read the Namespace.
func TestDeletionWithoutRightToNamespace(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "get namespaces" {
				return apierrors.NewForbidden(corev1.Resource("namespaces"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.mu.Unlock()
		a.sets.Delete("ns", "s")
		a.wait(5 * time.Minute)
		if sets := a.sets.List(); len(sets) != 0 || a.count(podsResource) != 0 {
			t.Errorf("%d ActionSets and %d Pods are left", len(sets), a.count(podsResource))
		}
	})
}

// While a long phase runs, the API server is asked once whether an ended phase has left something, and at the end of the run once more.
func TestEndedPhasesAreLookedAtOnce(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.wait(2 * time.Minute)
		if left := a.count(podsResource); left != 0 {
			t.Errorf("%d Pods are left after two minutes, although they can be deleted", left)
		}
		a.takeRequests()
		a.wait(10 * time.Minute)
		if n := a.podRequests(); n != 0 {
			t.Errorf("the process that has removed the Pod has looked for it %d times", n)
		}
		a.stopProcess()
		a.startProcess()
		a.wait(10 * time.Minute)
		if n := a.podRequests(); n != 1 {
			t.Errorf("the next process has looked for the Pod %d times, want once", n)
		}
		a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
		a.waitHour()
		if n := a.podRequests(); n != 1 {
			t.Errorf("at the end of the run it was looked for the Pod %d times, want once", n)
		}
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) > 0 || a.secret() != nil {
			t.Errorf("in the end %s, with the finalizers %q", describeStatus(set.Status), set.Finalizers)
		}
	})
}

// A namespace that is gone, or terminating, has left nothing: its rights go before the Pods.
func TestGoneNamespaceHasLeftNothing(t *testing.T) {
	for name, end := range map[string]func(*apiServer){
		"gone": func(a *apiServer) { a.namespaces.Delete("", "app") },
		"terminating": func(a *apiServer) {
			a.namespaces.Update("", "app", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSecondPhase(t, func(t *testing.T, a *apiServer, refused *bool) {
				a.mu.Lock()
				*refused = true
				a.mu.Unlock()
				end(a)
				a.takeEvents()
				a.delete()
				a.wait(time.Minute)
				if got := a.states(); got != "gone" || a.count(secretsResource) != 0 {
					t.Errorf("a minute after the deletion the states are %s, and %d Secrets are left", got, a.count(secretsResource))
				}
				if created := a.count(configMapsResource); created != 2 {
					t.Errorf("%d ConfigMaps, want that of the deferPhase, too", created)
				}
				if events := strings.Join(a.takeEvents(), "\n"); strings.Contains(events, reasonCleanUpFailed) {
					t.Error(events)
				}
			})
		})
	}
}

// Without rights where a Pod is left, the run goes on, and can be cancelled and deleted. When the clean-up was refused for a while, it is given up, and events
// report that.
func TestRefusedCleanUpIsGivenUp(t *testing.T) {
	ends := map[string]func(*apiServer){
		"deleted":      (*apiServer).delete,
		"deleted soon": (*apiServer).delete,
		"cancelled":    func(a *apiServer) { a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true }) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inSecondPhase(t, func(t *testing.T, a *apiServer, refused *bool) {
				a.mu.Lock()
				*refused = true
				a.mu.Unlock()
				a.takeRequests()
				if name == "deleted" { // else the Pod is still in a cache when the clean-up is given up
					a.wait(30 * time.Minute)
					if n := a.podRequests(); n < 3 || n > 8 { // an attempt has one or two
						t.Errorf("%d requests about Pods in half an hour, want some attempts", n)
					}
				}
				a.takeEvents()
				end(a)
				a.wait(cleanUpLimit - time.Second)
				if got, want := a.states(), "failed go[ one=complete long=failed defer last=complete ] ended"; got != want || len(a.set().Finalizers) == 0 {
					t.Fatalf("before the limit the states are %s, want %s, with the finalizer", got, want)
				}
				wantWarnings(t, a, "s: Warning CleanUpFailed: The clean-up of the run fails, and is tried again: ")
				a.wait(2 * time.Minute)
				if set := a.set(); name != "cancelled" && set != nil || set != nil && len(set.Finalizers) > 0 || a.count(secretsResource) != 0 {
					t.Errorf("after the limit the states are %s, and %d Secrets are left", a.states(), a.count(secretsResource))
				}
				wantWarnings(t, a, "s: Warning CleanUpFailed: The clean-up of the run was refused for 5m0s, and is given up. Objects of it may be left: "+
					"kubectl get pods,secrets --all-namespaces --selector millwright.dev/actionset-uid=")
				a.takeRequests()
				if name == "deleted soon" {
					a.wait(3 * time.Minute)
					if n := a.podRequests(); n != 0 {
						t.Errorf("%d requests about Pods in three minutes after the clean-up was given up, want one in a quarter of an hour", n)
					}
				}
				if name == "cancelled" {
					a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"edited": "yes"} })
					a.waitHour()
					if n := a.podRequests(); n != 0 {
						t.Errorf("%d requests about Pods after the clean-up was given up", n)
					}
					wantWarnings(t, a)
				}
			})
		})
	}
}

// podRequests returns the number of requests about Pods since requests were last taken.
func (a *apiServer) podRequests() (n int) {
	for _, request := range a.takeRequests() {
		if request == "get pods" || request == "delete pods" {
			n++
		}
	}
	return n
}

// wantWarnings checks how the events about the clean-up begin, since events were last taken. Each of them ends with the refusal.
func wantWarnings(t *testing.T, a *apiServer, want ...string) {
	t.Helper()
	wantWarningsOf(t, a, "no RoleBinding", want...)
}

// wantWarningsOf wants warnings about the clean-up that end with the reason of its failure.
func wantWarningsOf(t *testing.T, a *apiServer, why string, want ...string) {
	t.Helper()
	events := slices.DeleteFunc(a.takeEvents(), func(event string) bool { return !strings.Contains(event, reasonCleanUpFailed) })
	if len(events) != len(want) {
		t.Fatalf("events %q, want %d", events, len(want))
	}
	for i, event := range events {
		if !strings.HasPrefix(event, want[i]) || !strings.HasSuffix(event, why) || strings.Count(event, why) != 1 {
			t.Errorf("event %q, want %q, and the reason once", event, want[i])
		}
	}
}

// A clean-up that is refused only for a while is done, even where it is about to be given up.
func TestCleanUpGoesOnAfterRefusal(t *testing.T) {
	for _, while := range []time.Duration{cleanUpLimit / 2, cleanUpLimit - time.Second} {
		inSecondPhase(t, func(t *testing.T, a *apiServer, refused *bool) {
			a.mu.Lock()
			*refused = true
			a.mu.Unlock()
			a.delete()
			a.wait(while)
			a.answerAll()
			a.wait(2 * time.Minute)
			if got, left := a.states(), a.count(podsResource); got != "gone" || left != 0 {
				t.Errorf("the states are %s, and %d Pods are left", got, left)
			}
		})
	}
}

// An outage does not count as a refusal, however long it is.
func TestOutageEndsNoCleanUp(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, refused *bool) {
		a.mu.Lock()
		*refused = true
		a.mu.Unlock()
		a.delete()
		a.wait(cleanUpLimit / 2)
		a.mu.Lock()
		a.refuse = func(request string) error {
			if strings.HasSuffix(request, " pods") {
				return outage(request)
			}
			return nil
		}
		a.mu.Unlock()
		a.waitHour()
		if got := a.states(); got == "gone" {
			t.Error("the clean-up is given up in an outage")
		}
		a.answerAll()
		a.wait(2 * time.Minute)
		if got, left := a.states(), a.count(podsResource); got != "gone" || left != 0 {
			t.Errorf("the states are %s, and %d Pods are left", got, left)
		}
	})
}

// A run that ends between the syncs of a round in which it could not be found out what a phase has left keeps its finalizer.
func TestFailedCleanUpOutlivesRound(t *testing.T) {
	const many = 8
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"task": {Phases: []v1alpha1.BlueprintPhase{task("one")}},
		"wait": {Phases: []v1alpha1.BlueprintPhase{waitFor("c")}},
	})
	inBubble(t, newSet(append(slices.Repeat([]string{"task"}, many), "wait")...), blueprint, func(t *testing.T, a *apiServer) {
		configMaps := a.createConfigMap("c", "no")
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		first, refuses := "", false
		a.refuse = func(request string) error {
			if first = cmp.Or(first, map[bool]string{true: a.object}[request == "create pods"]); refuses && a.object == first && strings.HasSuffix(request, " pods") {
				return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.startProcess()
		a.mu.Lock()
		refuses = true
		a.mu.Unlock()
		for _, pod := range pods.List() {
			pods.Update("ns", pod.Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		}
		a.wait(5 * time.Minute)
		if left := pods.List(); len(left) != 1 || left[0].Name != first {
			t.Fatalf("%d Pods are left, want the first one", len(left))
		}
		a.stopProcess()
		configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
		a.slowDown(http.MethodGet, "/pods/", 4*time.Second) // a sync looks for two of them
		a.startProcess()
		a.wait(cleanUpLimit / 2)
		if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) == 0 {
			t.Errorf("%s, and the finalizers are %q although a Pod is left", describeStatus(set.Status), set.Finalizers)
		}
		a.answerAll()
		a.wait(3 * time.Minute)
		if set := a.set(); len(set.Finalizers) > 0 || len(pods.List()) > 0 {
			t.Errorf("in the end %d Pods are left, and the finalizers are %q", len(pods.List()), set.Finalizers)
		}
	})
}

// An ActionSet whose run has ended, and that could not be cleaned up, is let go when its namespace is deleted, after another try.
func TestEndedRunInTerminatingNamespace(t *testing.T) {
	for _, test := range []struct{ removable, sameProcess bool }{{false, false}, {false, true}, {true, false}} {
		inSecondPhase(t, func(t *testing.T, a *apiServer, refused *bool) {
			a.mu.Lock()
			*refused = true
			a.mu.Unlock()
			a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
			a.wait(time.Minute)
			if !test.sameProcess { // its cache shows the Pod
				a.stopProcess()
			}
			a.namespaces.Update("", "ns", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
			a.mu.Lock()
			a.refuse = func(request string) error {
				if strings.HasSuffix(request, " secrets") || !test.removable && strings.HasSuffix(request, " pods") {
					return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
				}
				return nil
			}
			a.mu.Unlock()
			a.delete()
			if !test.sameProcess {
				a.startProcess()
			}
			a.wait(time.Minute)
			if got, left := a.states(), a.count(podsResource); got != "gone" || test.removable != (left == 0) {
				t.Errorf("the namespace is terminating, the states are %s, and %d Pods are left", got, left)
			}
		})
	}
}

// What another ActionSet has left is removed after an outage, although the run of this one has ended.
func TestSweepAfterShortRun(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.blueprints.Create(renamed(threePhases(), "small"))
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete pods" {
				return outage(request)
			}
			return nil
		}
		a.mu.Unlock()
		a.sets.Remove("ns", "s")
		set := newSet("go")
		set.UID, set.Spec.Actions[0].Blueprint = "another", "small"
		a.create(set)
		a.wait(20 * time.Second)
		a.wantEnded("s")
		a.answerAll()
		a.wait(2 * time.Minute)
		if left := a.count(podsResource); left != 0 {
			t.Errorf("%d Pods of the ActionSet before are left", left)
		}
	})
}

// When the namespace of an ActionSet is deleted while it runs, what its ended phases have left elsewhere is removed.
func TestRunInTerminatingNamespace(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		if left := a.count(podsResource); left != 1 {
			t.Fatalf("%d Pods", left)
		}
		a.stopProcess() // no cache of the next one shows the Pod
		a.namespaces.Update("", "ns", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
		a.delete()
		a.startProcess()
		a.wait(10 * time.Second)
		if got, left := a.states(), a.count(podsResource); got != "gone" || left != 0 {
			t.Errorf("the states are %s, and %d Pods are left", got, left)
		}
	})
}

// Without rights to the Secret with the snapshot an ActionSet that has ended is let go, too.
func TestRefusedSnapshotIsGivenUp(t *testing.T) {
	for _, sameProcess := range []bool{true, false} {
		inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
			a.wait(2 * time.Minute)
			a.mu.Lock()
			a.refuse = func(request string) error {
				if request == "delete secrets" || !sameProcess && request == "get secrets" {
					return apierrors.NewForbidden(corev1.Resource("secrets"), a.object, errors.New("no RoleBinding"))
				}
				return nil
			}
			a.mu.Unlock()
			a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
			a.wait(time.Second)
			if !sameProcess {
				a.stopProcess()
				a.startProcess()
			}
			a.takeEvents()
			a.wait(cleanUpLimit + 2*time.Minute)
			if set := a.set(); !hasFinished(set.Status) || len(set.Finalizers) > 0 {
				t.Errorf("%s, with the finalizers %q", describeStatus(set.Status), set.Finalizers)
			}
			wantWarnings(t, a, "s: Warning CleanUpFailed: The clean-up of the run fails", "s: Warning CleanUpFailed: The clean-up of the run was refused")
			a.takeRequests()
			a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"edited": "yes"} })
			a.waitHour()
			if requests := strings.Join(a.takeRequests(), ", "); strings.Contains(requests, "secrets") {
				t.Errorf("requests after the clean-up was given up: %s", requests)
			}
		})
	}
}

// While the clean-up of one phase is refused, the others are not looked at again and again.
func TestCleanPhasesAreNotLookedAtAgain(t *testing.T) {
	const many = 20
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"task": {Phases: []v1alpha1.BlueprintPhase{task("one")}}})
	inBubble(t, newSet(slices.Repeat([]string{"task"}, many)...), blueprint, func(t *testing.T, a *apiServer) {
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		a.startProcess()
		kept := pods.List()[0].Name
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete pods" && a.object == kept {
				return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.mu.Unlock()
		for _, pod := range pods.List() {
			pods.Update("ns", pod.Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		}
		a.takeRequests()
		a.wait(cleanUpLimit - time.Second)
		if n := a.podRequests(); n > 5*many {
			t.Errorf("%d requests for %d Pods of which one cannot be removed", n, many)
		}
	})
}

// A status that does not show what a phase has done keeps no ActionSet for ever.
func TestUnreadableIntentIsGivenUp(t *testing.T) {
	for _, intent := range []string{`{"pod":5}`, `[]`} {
		inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
			a.wait(2 * time.Minute)
			a.stopProcess()
			a.edit(func(set *v1alpha1.ActionSet) { set.Status.Actions[0].Phases[0].Intent = rawArgs(intent) })
			a.startProcess()
			a.delete()
			a.wait(cleanUpLimit + 2*time.Minute)
			if got := a.states(); got != "gone" {
				t.Errorf("with the intent %s the states are %s", intent, got)
			}
		})
	}
}

// What another ActionSet of the name has left, and cannot be removed, holds up no run.
func TestRefusedSweepHoldsNothingUp(t *testing.T) {
	inSecondPhase(t, func(t *testing.T, a *apiServer, _ *bool) {
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.mu.Unlock()
		a.sets.Remove("ns", "s")
		synctest.Wait()
		set := newSet("go")
		set.UID = "another"
		a.takeRequests()
		a.create(set)
		a.wait(30 * time.Second)
		if got := a.states(); !strings.HasPrefix(got, "running go[ one=running") {
			t.Errorf("the states are %s", got)
		}
		if made := a.count(podsResource); made != 2 {
			t.Errorf("%d Pods, want the one that is left and one of the run", made)
		}
		if n := a.podRequests(); n > 3 {
			t.Errorf("%d requests for the Pod that is left in half a minute", n)
		}
		a.answerAll()
		a.wait(2 * time.Minute)
		if made := a.count(podsResource); made != 1 {
			t.Errorf("%d Pods, want only the one of the run", made)
		}
	})
}
