// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
)

// foreignDeployment has the name that ours needs, and agrees with all that we would set, the owner excepted.
func foreignDeployment(options ...deploymentOption) *appsv1.Deployment {
	return deploymentOf(newApp(), append([]deploymentOption{deployed(notOurs), func(d *appsv1.Deployment) { d.UID = "uid-foreign" }}, options...)...)
}

func TestForeignDeployment(t *testing.T) {
	for name, options := range map[string][]deploymentOption{
		"that agrees with all that we would set": nil,
		"with a selector of its own":             {ofTheOldOperator},
		"that carries our label and has another controller": {func(d *appsv1.Deployment) {
			*d = *deploymentOf(newApp(), deployed(ofAnotherOwner))
			d.UID = "uid-foreign"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				foreign := foreignDeployment(options...)
				a.deploymentAppears(foreign)
				a.operate()
				time.Sleep(time.Hour)
				events, statuses := 0, 0
				for _, line := range a.took() {
					switch {
					case line == `event Warning ErrResourceExists "Deployment \"x\" already exists and is not managed by this HelloApp"`:
						events++
					case line == "status: generation 1, Ready=False Conflict, Conflict=True ErrResourceExists":
						statuses++
					case line != "create deployments" && line != "get deployments":
						t.Errorf("took %s", line)
					}
				}
				if events != 1 || statuses != 1 {
					t.Errorf("the conflict is reported by %d events and %d status writes, want one each", events, statuses)
				}
				if diff := cmp.Diff(foreign.ObjectMeta, a.deployment().ObjectMeta); diff != "" {
					t.Errorf("the foreign Deployment was touched (-before +after):\n%s", diff)
				}
				a.deploymentGoes()
				time.Sleep(conflictRetry)
				a.took()
				if d := a.deployment(); d == nil || !metav1.IsControlledBy(d, a.app()) {
					t.Errorf("after the foreign one has gone there is %v, want ours", d)
				}
				if got, want := describeStatus(a.app().Status), "status: generation 1, Deployment x 0/0/0/0, Ready=False Progressing, Conflict=False Resolved"; got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

func TestConflictIsCheckedEveryTenSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.deploymentAppears(foreignDeployment())
		a.operate()
		a.wants("at first", "create deployments", "get deployments", "status: generation 1, Ready=False Conflict, Conflict=True ErrResourceExists",
			`event Warning ErrResourceExists "Deployment \"x\" already exists and is not managed by this HelloApp"`)
		time.Sleep(time.Minute + time.Second)
		if got := a.took(); len(got) != 6 || slices.ContainsFunc(got, func(line string) bool { return line != "get deployments" }) {
			t.Errorf("in a minute it takes %q, want 6 reads", got)
		}
	})
}

func TestForeignServiceIsAConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		foreign := serviceOf(newApp(withPort(80)), notOurs)
		a.serviceAppears(foreign)
		a.operate()
		a.wants("at first", "create deployments", "create services", "get services",
			"status: generation 1, Deployment x 0/0/0/0, Ready=False Progressing, Conflict=True ErrResourceExists",
			saysCreated,
			`event Warning ErrResourceExists "Service \"x\" already exists and is not managed by this HelloApp"`)
		a.deploymentBecomes(rolledOut)
		synctest.Wait()
		if diff := cmp.Diff(foreign.ObjectMeta, a.service().ObjectMeta); diff != "" {
			t.Errorf("the foreign Service was touched (-before +after):\n%s", diff)
		}
		a.serviceGoes()
		time.Sleep(conflictRetry)
		a.took()
		if service := a.service(); service == nil || !metav1.IsControlledBy(service, a.app()) {
			t.Errorf("after the foreign one has gone there is %v, want ours", service)
		}
		want := strings.Replace(isReady, "Progressing=True NewReplicaSetAvailable", "Progressing=True NewReplicaSetAvailable, Conflict=False Resolved", 1)
		if got := describeStatus(a.app().Status); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}, withPort(80))
}

func TestOldOperatorsDeploymentIsAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		old := deploymentOf(newApp(), ofTheOldOperator)
		a.deploymentAppears(old)
		a.operate()
		a.wants("at first", "create deployments", "get deployments", "apply deployments",
			"status: generation 1, Deployment x 0/0/0/0, Ready=False Progressing", `event Normal Adopted "Adopted Deployment x"`)
		d := a.deployment()
		if diff := cmp.Diff(old.Spec.Selector, d.Spec.Selector); diff != "" || d.UID != old.UID {
			t.Errorf("the Deployment is %s, of another selector (-before +after):\n%s", d.UID, diff)
		}
		a.deploymentBecomes(rolledOut)
		time.Sleep(time.Hour)
		a.wants("after that", isReady)
	})
}

func TestAnOrphanIsAdoptedAndItsPodsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		orphan := deploymentOf(newApp(), defaulted, rolledOut, deployed(orphaned))
		a.deploymentAppears(orphan)
		a.operate()
		a.wants("at first", "get helloapps", "apply deployments", isReady, `event Normal Adopted "Adopted Deployment x"`)
		d := a.deployment()
		if diff := cmp.Diff(orphan.Spec, d.Spec); diff != "" || d.UID != orphan.UID {
			t.Errorf("the Deployment is %s, changed (-before +after):\n%s", d.UID, diff)
		}
	})
}

func TestOrphanOfDeletedAppIsNotAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.Freeze(helloApps.GroupVersionResource)
		a.objects.Update("default", "x", func(app *v1.HelloApp) {
			terminating(app)
			app.Finalizers = []string{metav1.FinalizerOrphanDependents}
		})
		a.deploymentBecomes(deployed(orphaned))
		a.wants("when the garbage collector orphans it", "get helloapps")
	})
}

func TestDeploymentOfEarlierAppIsWaitedFor(t *testing.T) {
	for name, options := range map[string][]deploymentOption{"in our watch": nil, "that lost its label": {deployed(unlabelled)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.deploymentAppears(deploymentOf(newApp(), append(options, deployed(ofAnEarlierApp))...))
				a.operate()
				time.Sleep(time.Minute)
				lines := a.took()
				isEventOrApply := func(line string) bool { return strings.HasPrefix(line, "event") || strings.HasPrefix(line, "apply") }
				if len(lines) > 20 || slices.ContainsFunc(lines, isEventOrApply) {
					t.Errorf("took %q", lines)
				}
				a.deploymentGoes()
				time.Sleep(conflictRetry)
				a.took()
				if d := a.deployment(); d == nil || !metav1.IsControlledBy(d, a.app()) {
					t.Errorf("after it has gone there is %v, want ours", d)
				}
			})
		})
	}
}
