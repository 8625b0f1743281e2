// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// threePhases with a deferPhase make ConfigMaps of their names.
func threePhases() *v1alpha1.Blueprint {
	bye := configMapPhase("bye")
	return newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {
		Phases: []v1alpha1.BlueprintPhase{configMapPhase("one"), configMapPhase("two"), configMapPhase("three")}, DeferPhase: &bye,
	}})
}

const (
	allComplete = "complete go[ one=complete two=complete three=complete defer bye=complete ] ended"
	allRequests = "get blueprints, get namespaces, patch actionsets, create secrets, update actionsets/status, create configmaps, update actionsets/status, create configmaps, " +
		"update actionsets/status, create configmaps, update actionsets/status, create configmaps, update actionsets/status, delete secrets, patch actionsets"
)

func TestRunRequests(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.startProcess()
		a.wantEqual("requests", a.takeRequests(), strings.Split(allRequests, ", ")...)
		a.wantEqual("events", withoutAdded(a.takeEvents()),
			"s: Normal Started Action: Executing action go",
			"s: Normal Started Phase: Executing phase one", "s: Normal Ended Phase: Completed phase one",
			"s: Normal Started Phase: Executing phase two", "s: Normal Ended Phase: Completed phase two",
			"s: Normal Started Phase: Executing phase three", "s: Normal Ended Phase: Completed phase three",
			"s: Normal Started deferPhase: Executing deferPhase bye", "s: Normal Ended deferPhase: Completed deferPhase bye",
			"s: Normal Update Complete: Updated ActionSet 's' Status->complete")
		if got := a.states(); got != allComplete {
			t.Errorf("the states are %s", got)
		}
		a.waitHour()
		a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"a": "b"} })
		a.waitHour()
		a.wantEqual("requests of a run that has ended", a.takeRequests())
		a.wantEqual("events of a run that has ended", a.takeEvents())
	})
}

// Each request fails once, before or after it has taken effect. Everything is still done, and once.
func TestEachRequestFailsOnce(t *testing.T) {
	for n := range strings.Count(allRequests, ",") + 1 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("request %d, late %t", n+1, late), func(t *testing.T) {
				inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
					if late {
						read := nth(n + 1)
						a.lose = func(request string) error {
							err := read(request)
							if strings.HasPrefix(request, "get ") {
								return nil
							}
							return err
						}
					} else {
						a.refuse = nth(n + 1)
					}
					a.startProcess()
					a.waitHour()
					if got := a.states(); got != allComplete {
						t.Errorf("the states are %s", got)
					}
					if made, secrets := a.count(configMapsResource), a.count(secretsResource); made != 4 || secrets != 0 {
						t.Errorf("%d ConfigMaps, %d Secrets", made, secrets)
					}
					if finalizers := a.set().Finalizers; len(finalizers) > 0 {
						t.Errorf("finalizers %v", finalizers)
					}
				})
			})
		}
	}
}

// The process is killed at each request, before or after it takes effect, and another process continues.
func TestCrashAtEveryRequest(t *testing.T) {
	for n := range strings.Count(allRequests, ",") + 1 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("at request %d, late %t", n+1, late), func(t *testing.T) {
				inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
					done := 0
					killed := func(request string) error {
						if done++; done > n {
							return outage(request)
						}
						return nil
					}
					a.refuse = killed
					if late {
						lost := false
						a.refuse = func(request string) error {
							if done > n {
								return outage(request)
							}
							return nil
						}
						a.lose = func(request string) error {
							done++
							if lost = done == n+1 && !strings.HasPrefix(request, "get "); lost {
								return outage(request)
							}
							return nil
						}
					}
					a.startProcess()
					a.waitInOutage()
					if done <= n {
						t.Fatalf("the process sent %d requests in five minutes, want %d at least", done, n+1)
					}
					a.stopProcess()
					a.answerAll()
					a.startProcess()
					a.waitHour()
					if got := a.states(); got != allComplete {
						t.Errorf("the states are %s", got)
					}
					if made, secrets := a.count(configMapsResource), a.count(secretsResource); made != 4 || secrets != 0 && n < strings.Count(allRequests, ",")-1 {
						t.Errorf("%d ConfigMaps, %d Secrets", made, secrets)
					}
					if finalizers := a.set().Finalizers; len(finalizers) > 0 {
						t.Errorf("finalizers %v", finalizers)
					}
				})
			})
		}
	}
}

func TestDeleteRunsDeferPhase(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request == "create configmaps" && a.count(configMapsResource) == 1 {
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		if got, want := a.states(), "running go[ one=complete two=running three=pending defer bye=pending ]"; got != want {
			t.Fatalf("the states are %s, want %s", got, want)
		}
		a.delete()
		time.Sleep(2 * time.Minute)
		if got := a.states(); got == "gone" {
			t.Error("it is gone, and its deferPhase has not run")
		}
		a.answerAll()
		a.waitHour()
		if got := a.states(); got != "gone" {
			t.Errorf("the states are %s", got)
		}
		if made, secrets := a.count(configMapsResource), a.count(secretsResource); made != 2 || secrets != 0 {
			t.Errorf("%d ConfigMaps, %d Secrets", made, secrets)
		}
	})
}

// A process that finds a cancelled Wait of another process does not read what it waits for.
func TestCancelledWaitReadsNothing(t *testing.T) {
	wait := v1alpha1.BlueprintPhase{Func: "Wait", Name: "long", Args: rawArgs(
		`{"timeout":"1h","conditions":{"anyOf":[{"condition":"false","objectReference":{"apiVersion":"v1","resource":"configmaps","namespace":"ns","name":"c"}}]}}`)}
	inBubble(t, newSet("go"), newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{wait}}}), func(t *testing.T, a *apiServer) {
		a.startProcess()
		a.stopProcess()
		if requests := a.takeRequests(); !slices.Contains(requests, "get configmaps") {
			t.Fatalf("got requests %q, want that the object is read before the cancellation", requests)
		}
		a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel, set.Generation = true, set.Generation+1 })
		a.startProcess()
		requests := a.takeRequests()
		if got, want := a.states(), "failed go[ long=failed ] ended"; got != want || slices.Contains(requests, "get configmaps") {
			t.Errorf("got %s after the requests %q, want %s", got, requests, want)
		}
	})
}

func TestDeleteWithNamespace(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request == "create configmaps" {
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		now := metav1.Now()
		// The rights that are bound in the namespace go with it.
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "get namespaces" || request == "patch actionsets" || request == "get actionsets" {
				return nil
			}
			return apierrors.NewForbidden(secretsResource.GroupResource(), "x", errors.New("no right"))
		}
		a.mu.Unlock()
		a.stopProcess()
		a.startProcess()
		a.namespaces.Update("", "ns", func(namespace *corev1.Namespace) {
			namespace.DeletionTimestamp, namespace.Finalizers = &now, []string{"kubernetes"}
		})
		a.delete()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := a.states(); got != "gone" {
			t.Errorf("the states are %s", got)
		}
	})
}

func TestCreateInTerminatingNamespace(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request != "create secrets" {
				return nil
			}
			err := apierrors.NewForbidden(secretsResource.GroupResource(), "x", errors.New("the namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		}
		a.startProcess()
		a.waitHour()
		if got := a.states(); got != "no status" {
			t.Errorf("the states are %s", got)
		}
		if requests := a.takeRequests(); len(requests) > 8 {
			t.Errorf("requests %q", requests)
		}
	})
}

func TestDeleteWaitsForPods(t *testing.T) {
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{phaseOf("KubeTask", "task")}}})
	inBubble(t, newSet("go"), blueprint, func(t *testing.T, a *apiServer) {
		a.refuse = func(request string) error {
			if request == "delete pods" {
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		if made := a.count(podsResource); made != 1 {
			t.Fatalf("%d Pods", made)
		}
		a.delete()
		a.waitHour()
		if got := a.states(); got == "gone" || a.count(secretsResource) != 1 {
			t.Errorf("its Pod is left, and the states are %s, with %d Secrets", got, a.count(secretsResource))
		}
		a.answerAll()
		a.waitHour()
		if got, left := a.states(), a.count(podsResource); got != "gone" || left != 0 {
			t.Errorf("the states are %s, and %d Pods are left", got, left)
		}
	})
}

// A run is started from the Blueprint as it is on the API server, however stale the cache is.
func TestBlueprintIsReadFromAPIServer(t *testing.T) {
	before := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{configMapPhase("old")}}})
	inBubble(t, nil, before, func(t *testing.T, a *apiServer) {
		a.startProcess()
		a.Freeze(blueprintsResource.GroupVersionResource)
		a.blueprints.Update("ns", "bp", func(b *v1alpha1.Blueprint) { b.Actions = threePhases().Actions })
		a.create(newSet("go"))
		a.waitHour()
		if got := a.states(); got != allComplete {
			t.Errorf("the states are %s", got)
		}
		cached, err := a.controller.blueprints.Blueprints("ns").Get("bp")
		a.must(err)
		if len(cached.Actions) > 0 {
			t.Error("the cache holds its actions")
		}
	})
}

// What ends before a start does not depend on Blueprints.
func TestEndWithoutBlueprints(t *testing.T) {
	for name, end := range map[string]func(*v1alpha1.ActionSet){
		"failed ended": func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true },
		"gone": func(set *v1alpha1.ActionSet) {
			now := metav1.Now()
			set.Finalizers, set.DeletionTimestamp = []string{Finalizer}, &now
		},
	} {
		set := newSet("go")
		end(set)
		inBubble(t, set, threePhases(), func(t *testing.T, a *apiServer) {
			a.refuse = func(request string) error {
				if request == "get blueprints" {
					return outage(request)
				}
				return nil
			}
			a.startProcess()
			a.waitHour()
			if got := a.states(); got != name {
				t.Errorf("the states are %s, want %s", got, name)
			}
		})
	}
}

// A Blueprint is read once, and no more of them than fit in a snapshot.
func TestReadBlueprints(t *testing.T) {
	for name, test := range map[string]struct {
		actions []string // of each of 20 Blueprints, one after the other
		kind    string
		unused  int // bytes of another action
		reads   int
		message string
	}{
		"small":               {actions: []string{"small", "tiny"}, reads: 20},
		"large":               {actions: []string{"large"}, reads: 4, message: "the snapshot of the run is too large"},
		"large and small":     {actions: []string{"small", "large"}, reads: 4, message: "the snapshot of the run is too large"},
		"more than is read":   {actions: []string{"small"}, unused: 1_000_000, reads: 11, message: "have more than 16777216 bytes together"},
		"rejected before all": {actions: []string{"small"}, kind: "unknown", reads: 0, message: "Not a known object Kind unknown"},
	} {
		set := newSet()
		for _, action := range test.actions {
			for i := range 20 {
				set.Spec.Actions = append(set.Spec.Actions, v1alpha1.ActionSpec{
					Name: action, Blueprint: fmt.Sprint("bp-", i), Object: v1alpha1.ObjectReference{Kind: cmp.Or(test.kind, "Namespace"), Name: "ns"},
				})
			}
		}
		inBubble(t, set, nil, func(t *testing.T, a *apiServer) {
			large := configMapPhase("one")
			large.Args = rawArgs(`{"operation":"create","spec":"` + strings.Repeat("x", 300_000) + `"}`)
			unused := configMapPhase("unused")
			unused.Args = rawArgs(`{"operation":"create","spec":"` + strings.Repeat("x", test.unused) + `"}`)
			for i := range 20 {
				blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
					"large": {Phases: []v1alpha1.BlueprintPhase{large}}, "unused": {Phases: []v1alpha1.BlueprintPhase{unused, large}}, "small": {}, "tiny": {},
				})
				blueprint.Name = fmt.Sprint("bp-", i)
				a.blueprints.Create(blueprint)
			}
			a.startProcess()
			if got := a.set().Status.Error.Message; !strings.Contains(got, test.message) || test.message == "" && got != "" {
				t.Errorf("%s: the message is %q", name, got)
			}
			if got := strings.Count(strings.Join(a.takeRequests(), ", "), "get blueprints"); got != test.reads {
				t.Errorf("%s: %d Blueprints were read, want %d", name, got, test.reads)
			}
		})
	}
}

func TestSnapshotIsCreatedOnce(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		refused := false
		a.refuse = func(request string) error {
			if request != "update actionsets/status" || refused {
				return nil
			}
			refused = true
			return apierrors.NewConflict(setsResource.GroupResource(), "s", errors.New("the object has been modified"))
		}
		a.startProcess()
		a.waitHour()
		requests := strings.Join(a.takeRequests(), ", ")
		if got := a.states(); got != allComplete || strings.Count(requests, " secrets") != 2 {
			t.Errorf("the states are %s, by %s", got, requests)
		}
	})
}

// A run that cannot start is retried, with few requests, and its status shows which of them is refused.
func TestStartIsRetried(t *testing.T) {
	for refused, want := range map[string]string{
		"create secrets": `The snapshot of the run cannot be created at the moment: `,
		"get blueprints": `Blueprints cannot be read at the moment: reading Blueprint ns/bp: `,
		"get configmaps": `The actions cannot be prepared at the moment: reading ConfigMap ns/c: `,
	} {
		t.Run(refused, func(t *testing.T) {
			set := newSet("go")
			set.Spec.Actions[0].ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {Name: "c"}}
			inBubble(t, set, threePhases(), func(t *testing.T, a *apiServer) {
				a.createConfigMap("c", "true")
				tries := 0
				a.refuse = func(request string) error {
					if request != refused {
						return nil
					}
					tries++
					if refused == "create secrets" {
						return apierrors.NewForbidden(secretsResource.GroupResource(), "x", fmt.Errorf("exceeded quota: q%d", tries))
					}
					return apierrors.NewInternalError(fmt.Errorf("try %d", tries))
				}
				a.startProcess()
				progressing := meta.FindStatusCondition(a.set().Status.Conditions, v1alpha1.ConditionProgressing)
				if progressing == nil || progressing.Reason != v1alpha1.ReasonLaunching || !strings.HasPrefix(progressing.Message, want) ||
					!strings.HasSuffix(progressing.Message, "1") {
					t.Fatalf("the condition is %+v", progressing)
				}
				a.takeRequests()
				a.wait(10 * time.Minute)
				writes := strings.Count(strings.Join(a.takeRequests(), ", "), "update actionsets/status")
				if writes < 5 || writes > 11 || tries > 150 {
					t.Errorf("in ten minutes %d tries, and %d writes of their errors, want one in a minute", tries, writes)
				}
				if refused != "create secrets" && tries < 100 {
					t.Errorf("in ten minutes %d tries, want one in five seconds in an outage", tries)
				}
				a.answerAll()
				a.waitHour()
				if got := a.states(); got != allComplete {
					t.Errorf("the states are %s", got)
				}
			})
		})
	}
}

// A missing object is reported immediately, and nothing is retried.
func TestMissingObjectRejects(t *testing.T) {
	none := v1alpha1.ObjectReference{Name: "none"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.ActionSpec)
		phases func(*v1alpha1.BlueprintPhase)
		want   string
	}{
		"the subject":   {change: func(s *v1alpha1.ActionSpec) { s.Object = v1alpha1.ObjectReference{Kind: "Deployment", Name: "none"} }, want: `deployments.apps "none" not found`},
		"a Secret":      {change: func(s *v1alpha1.ActionSpec) { s.Secrets = map[string]v1alpha1.ObjectReference{"a": none} }, want: `secrets "none" not found`},
		"a ConfigMap":   {change: func(s *v1alpha1.ActionSpec) { s.ConfigMaps = map[string]v1alpha1.ObjectReference{"a": none} }, want: `configmaps "none" not found`},
		"the Profile":   {change: func(s *v1alpha1.ActionSpec) { s.Profile = &none }, want: `profiles.cr.kanister.io "none" not found`},
		"the Blueprint": {change: func(s *v1alpha1.ActionSpec) { s.Blueprint = "none" }, want: `Failed to query blueprint: blueprints.cr.kanister.io "none" not found`},
		"an object of a phase": {phases: func(p *v1alpha1.BlueprintPhase) {
			p.Objects = map[string]v1alpha1.ObjectReference{"a": {Kind: "Secret", Name: "none"}}
		}, want: `secrets "none" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			set, blueprint := newSet("go"), threePhases()
			if test.change != nil {
				test.change(&set.Spec.Actions[0])
			}
			if test.phases != nil {
				test.phases(&blueprint.Actions["go"].Phases[1])
			}
			inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
				a.startProcess()
				status := a.set().Status
				if status == nil || status.State != v1alpha1.StateFailed || status.Error.Message != test.want {
					t.Fatalf("the states are %s, want the error %q", a.states(), test.want)
				}
				if !hasFinished(status) {
					t.Error("it has not ended")
				}
				events := strings.Join(a.takeEvents(), "\n")
				if !strings.Contains(events, "Warning") || !strings.Contains(events, test.want) {
					t.Errorf("no Warning event has the reason:\n%s", events)
				}
				a.takeRequests()
				a.waitHour()
				a.wantEqual("requests after that", a.takeRequests())
			})
		})
	}
}
