// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// collect does with what the ActionSet owns what the garbage collector does while the ActionSet is being deleted with this propagation policy.
func (a *apiServer) collect(policy metav1.DeletionPropagation) {
	for _, resource := range []fakeapi.Resource{secretsResource, podsResource, configMapsResource} {
		objects := fakeapi.Of[unstructured.Unstructured](a.Server, resource)
		for _, object := range objects.List() {
			switch owners := object.GetOwnerReferences(); {
			case len(owners) == 0 || owners[0].UID != "uid-s":
			case policy == metav1.DeletePropagationForeground:
				objects.Delete(object.GetNamespace(), object.GetName())
			case policy == metav1.DeletePropagationOrphan:
				objects.Update(object.GetNamespace(), object.GetName(), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
			}
		}
	}
}

// Argo CD deletes in the foreground. The garbage collector then deletes what an ActionSet owns before the ActionSet.
func TestDeferPhaseAfterCollection(t *testing.T) {
	deferred := configMapPhase("bye")
	action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{waitFor("flag")}, DeferPhase: &deferred}
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	for _, policy := range policies {
		for _, restarts := range []bool{false, true} {
			inBubble(t, newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
				configMaps := a.createConfigMap("flag", "false")
				a.startProcess()
				a.waitInOutage()
				if restarts {
					a.stopProcess()
				}
				a.delete()
				a.collect(policy)
				if restarts {
					a.startProcess()
				}
				a.waitHour()
				if got := a.states(); got != "gone" || configMaps.Get("ns", "bye") == nil || a.count(secretsResource) > 0 {
					t.Errorf("%s, by another process: %t: the states are %s, the deferPhase has made %v, and %d Secrets are left",
						policy, restarts, got, configMaps.Get("ns", "bye"), a.count(secretsResource))
				}
			})
		}
	}
}

// A snapshot that an earlier process has created is deleted though the run does not start.
func TestSnapshotOfRefusedStart(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(a *apiServer)
		want string
	}{
		"cancelled":         {func(a *apiServer) { a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true }) }, "failed ended"},
		"deleted":           {(*apiServer).delete, "gone"},
		"blueprint is gone": {func(a *apiServer) { a.blueprints.Delete("ns", "bp") }, "failed ended"},
	} {
		for _, marked := range []bool{true, false} {
			change := func(*corev1.Secret) {}
			if !marked {
				change = func(s *corev1.Secret) { s.Labels = nil }
			}
			withEarlierSecret(t, change, func(t *testing.T, a *apiServer) {
				test.do(a)
				a.startProcess()
				a.waitHour()
				if got, left := a.states(), a.secret() != nil; got != test.want || left == marked {
					t.Errorf("%s: the states are %s, want %s; the Secret, which is marked: %t, is left: %t", name, got, test.want, marked, left)
				}
			})
		}
	}
}

// The finalizer goes although the snapshot of a run that has not started may not be deleted.
func TestRefusedSnapshotOfDeletedSet(t *testing.T) {
	for _, refused := range []string{"delete secrets", "get secrets"} {
		withEarlierSecret(t, func(*corev1.Secret) {}, func(t *testing.T, a *apiServer) {
			a.refuse = func(request string) error {
				if request == refused {
					return apierrors.NewForbidden(secretsResource.GroupResource(), "x", errors.New("no right"))
				}
				return nil
			}
			a.delete()
			a.startProcess()
			a.wait(time.Minute)
			if got := a.states(); got == "gone" {
				t.Errorf("%s: it is gone, and the Secret is left", refused)
			}
			a.waitHour()
			if got := a.states(); got != "gone" {
				t.Errorf("%s: the states are %s", refused, got)
			}
		})
	}
}

// A snapshot is not created from a stale cache: the run may have ended, and its ActionSet may be gone.
func TestSnapshotIsCreatedFromFreshState(t *testing.T) {
	for name, finalizers := range map[string][]string{"add the finalizer": nil, "keep the finalizer": {Finalizer}} {
		o := answered(observe(newSet("go"), threePhases()))
		o.set.Finalizers = finalizers
		steps := decide(o).Steps
		if len(steps) != 2 || steps[0].String() != name || steps[1].String() != "create the snapshot" {
			t.Errorf("got the steps %q, want first: %s", steps, name)
		}
	}
	plain := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")})))
	if steps := decide(plain).Steps; len(steps) != 1 {
		t.Errorf("a run without a finalizer begins with %q", steps)
	}
}

// Another controller starts or ends the run after this one has created its snapshot.
func TestSnapshotOfForeignRun(t *testing.T) {
	for _, name := range []string{"running", "complete"} {
		for _, deleted := range []bool{false, true} {
			withEarlierSecret(t, func(*corev1.Secret) {}, func(t *testing.T, a *apiServer) {
				a.edit(func(set *v1alpha1.ActionSet) { set.Status = storedSet(t, name).Status })
				if deleted {
					a.delete()
				}
				a.startProcess()
				a.waitHour()
				if a.secret() != nil || deleted != (a.set() == nil) || !deleted && len(a.set().Finalizers) > 0 {
					t.Errorf("%s, deleted: %t: the states are %s, and the Secret is left: %t", name, deleted, a.states(), a.secret() != nil)
				}
			})
		}
	}
}

// A user removes the finalizer of an ActionSet that runs.
func TestSnapshotAfterForcedDeletion(t *testing.T) {
	deferred := configMapPhase("bye")
	action := v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{waitFor("flag")}, DeferPhase: &deferred}
	for _, refusal := range []error{outage("delete secrets"), apierrors.NewForbidden(secretsResource.GroupResource(), "x", errors.New("no right"))} {
		inBubble(t, newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": withDefer(actionOf(), "KubeOps", "bye")}), func(t *testing.T, a *apiServer) {
			a.refuse = func(request string) error {
				if request == "delete secrets" {
					return refusal
				}
				return nil
			}
			a.startProcess()
			a.wait(time.Minute)
			if !hasFinished(a.set().Status) || a.secret() == nil {
				t.Fatalf("the states are %s", a.states())
			}
			a.sets.Remove("ns", "s")
			a.waitInOutage()
			a.answerAll()
			a.waitHour()
			if a.secret() != nil {
				t.Errorf("after the end, %v: the Secret with the snapshot is left", refusal)
			}
		})
	}
	for _, large := range []bool{false, true} {
		for _, recreated := range []bool{false, true} {
			set := newSet("go")
			if large {
				set.Annotations = map[string]string{"a": strings.Repeat("x", smallObject)}
			}
			inBubble(t, set, newBlueprint(map[string]v1alpha1.BlueprintAction{"go": action}), func(t *testing.T, a *apiServer) {
				a.createConfigMap("flag", "false")
				a.startProcess()
				a.refuse = func(request string) error {
					if request == "delete secrets" {
						return outage(request)
					}
					return nil
				}
				a.sets.Remove("ns", "s")
				if recreated {
					again := newSet()
					again.UID = "uid-again"
					a.create(again)
				}
				a.waitInOutage()
				a.answerAll()
				a.waitHour()
				if a.secret() != nil {
					t.Errorf("large: %t, created again: %t: the Secret with the snapshot is left", large, recreated)
				}
			})
		}
	}
}
