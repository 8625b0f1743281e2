// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/fakeapi"
)

// times returns the error n times.
func times(n int, err error) []error { return slices.Repeat([]error{err}, n) }

func TestOutageIsRetriedSilently(t *testing.T) {
	for name, err := range map[string]error{
		"internal error":    apierrors.NewInternalError(errors.New("etcd is tired")),
		"too many requests": apierrors.NewTooManyRequests("later", 1),
		"timeout":           apierrors.NewTimeoutError("slow", 1),
		"no connection":     errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Fail("patch deployments", times(3, err)...)
				a.operate()
				time.Sleep(time.Minute)
				failed := "patch deployments: " + err.Error()
				a.wants("until it is done", failed, failed, failed, "create deployments", isStarting, saysCreated)
			})
		})
	}
}

func TestALostAnswerMakesNothingTwice(t *testing.T) {
	for _, request := range []string{"patch deployments", "patch services", "update helloapps/status"} {
		t.Run(request, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Lose(request, errors.New("unexpected EOF"))
				a.operate()
				time.Sleep(time.Minute)
				a.deploymentBecomes(rolledOut)
				time.Sleep(time.Minute)
				if got := describeStatus(a.app().Status); got != isReady {
					t.Errorf("got  %s\nwant %s", got, isReady)
				}
				created := 0
				for _, c := range a.History() {
					if c.Before == nil && (c.Resource == deployments.GroupVersionResource || c.Resource == fakeapi.Services.GroupVersionResource) {
						created++
					}
				}
				if created != 2 {
					t.Errorf("%d objects were created, want a Deployment and a Service", created)
				}
				a.took()
				time.Sleep(time.Hour)
				a.wants("at rest")
			}, withPort(80))
		})
	}
}

func TestQuotaExceeded(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		quota := apierrors.NewForbidden(deployments.GroupResource(), "x", errors.New("exceeded quota: compute"))
		a.Fail("patch deployments", times(12, quota)...)
		a.operate()
		time.Sleep(2 * time.Minute)
		tried, rest := 0, []string{}
		for _, line := range a.took() {
			if line == "patch deployments: "+quota.Error() {
				tried++
				continue
			}
			rest = append(rest, line)
		}
		if tried != 12 {
			t.Errorf("tried %d times, want 12 in two minutes", tried)
		}
		want := []string{"status: generation 1, Ready=False Forbidden", "create deployments", isStarting,
			fmt.Sprintf("event Warning FailedApply %q", quota.Error()), saysCreated}
		if diff := cmp.Diff(want, rest); diff != "" {
			t.Errorf("apart from the tries (-want +got):\n%s", diff)
		}
	})
}

func invalid(path ...string) error {
	return apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "x",
		field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), "!", "no such name")})
}

func TestInvalidDeploymentIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		err := invalid("spec", "env")
		a.Fail("patch deployments", times(1000, err)...)
		a.operate()
		time.Sleep(time.Minute)
		tried := "patch deployments: " + err.Error()
		rest := slices.DeleteFunc(a.took(), func(line string) bool { return line == tried })
		if diff := cmp.Diff([]string{"status: generation 1, Ready=False Invalid", fmt.Sprintf("event Warning FailedApply %q", err.Error())}, rest); diff != "" {
			t.Errorf("in a minute, apart from the tries (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour - time.Minute)
		a.took()
		time.Sleep(time.Hour)
		a.wants("an hour later, in an hour", slices.Repeat([]string{tried}, 12)...)
		a.Fail("patch deployments")
		time.Sleep(5 * time.Minute)
		a.wants("when it is valid", "create deployments", isStarting, saysCreated)
	})
}

func TestInvalidEditKeepsDeployment(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		err := invalid("spec", "env")
		a.Fail("patch deployments", times(1000, err)...)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "!" })
		time.Sleep(time.Hour)
		tried := func(line string) bool { return line == "patch deployments: "+err.Error() || line == "get deployments" }
		isInvalid := strings.Replace(isEdited, "Ready=False Progressing", "Ready=False Invalid", 1)
		rest := slices.DeleteFunc(a.took(), tried)
		if diff := cmp.Diff([]string{isInvalid, fmt.Sprintf("event Warning FailedApply %q", err.Error())}, rest); diff != "" {
			t.Errorf("in an hour, apart from the tries (-want +got):\n%s", diff)
		}
		a.deploymentBecomes(counts(1, 2, 2, 1))
		time.Sleep(time.Hour)
		rest = slices.DeleteFunc(a.took(), tried)
		if diff := cmp.Diff([]string{strings.Replace(isInvalid, "2/2/2/2", "2/2/1/1", 1)}, rest); diff != "" {
			t.Errorf("when a Pod fails later on, apart from the tries (-want +got):\n%s", diff)
		}
	})
}

func TestLostOwnershipIsAConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		a.deploymentBecomes(func(d *appsv1.Deployment) { ofAnotherOwner(d); unlabelled(d) })
		a.operate()
		time.Sleep(time.Second)
		if got, want := describeStatus(a.app().Status), "status: generation 1, Ready=False Conflict, Conflict=True ErrResourceExists"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestTerminatingNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		gone := apierrors.NewForbidden(deployments.GroupResource(), "x", errors.New("unable to create new content in namespace default because it is being terminated"))
		gone.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		a.Fail("patch deployments", times(100, gone)...)
		_, logged := a.operate()
		time.Sleep(time.Hour)
		a.wants("of all", "patch deployments: "+gone.Error())
		for _, entry := range logged() {
			if entry.Err != nil {
				t.Errorf("logged as an error: %v", entry)
			}
		}
	})
}

func TestAWriteOfAnOlderSpecThatComesLateIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		old := newApp(func(app *v1.HelloApp) {
			app.Spec.Image, app.Spec.Env = "nginx:0", []corev1.EnvVar{{Name: "OLD"}}
		})
		coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "nginx:2" })
		a.took()
		// As an instance that hangs sends it: with all that it believed, and by force.
		_, err := a.kube.AppsV1().Deployments("default").Apply(t.Context(), newDeployment(old, nil).WithUID(a.deployment().UID), applyOptions(a.deployment().UID))
		a.must(err)
		time.Sleep(time.Minute)
		a.took()
		c := a.deployment().Spec.Template.Spec.Containers[0]
		if c.Image != "nginx:2" || len(c.Env) > 0 {
			t.Errorf("the container runs %s with %v, want nginx:2 with nothing", c.Image, c.Env)
		}
	})
}

func TestStaleCacheRollsNothingBack(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "nginx:2" })
		synctest.Wait()
		a.deploymentBecomes(rolledOut)
		a.took()
		stop()
		a.FreezeAt(1001, helloApps.GroupVersionResource)
		generation := a.deployment().Generation
		a.operate()
		time.Sleep(time.Minute)
		if lines := a.took(); slices.Contains(lines, "apply deployments") || !slices.Contains(lines, "get helloapps") {
			t.Errorf("took %q, want a look at the HelloApp and no write", lines)
		}
		if d := a.deployment(); d.Generation != generation || d.Spec.Template.Spec.Containers[0].Image != "nginx:2" {
			t.Errorf("the Deployment was changed: generation %d, image %s", d.Generation, d.Spec.Template.Spec.Containers[0].Image)
		}
	})
}

func TestLaterGenerationIsRepaired(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.deploymentBecomes(func(d *appsv1.Deployment) { d.Annotations[AnnotationGeneration] = "99" })
		a.wants("when a user edits it", "get helloapps", "apply deployments",
			`event Normal DriftRestored "Restored Deployment x, which differed in metadata.annotations.apps.anupam.com/generation"`)
		a.edit(func(s *v1.HelloAppSpec) { s.Size = 3 })
		a.took()
		if got := *a.deployment().Spec.Replicas; got != 3 {
			t.Errorf("after an edit it has %d replicas, want 3", got)
		}
	})
}

// Else an apply that is held up on its way would roll back what was applied since.
func TestAnApplyHoldsForTheVersionThatWasObserved(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		var versions, want []string
		a.OnWrite(func(r *fakeapi.Request) {
			if r.Verb == "patch" && r.Resource == deployments.GroupVersionResource {
				versions = append(versions, r.Object().GetResourceVersion())
			}
		})
		a.operate()
		synctest.Wait()
		want = []string{controller.EmptyStoreVersion, a.deployment().ResourceVersion}
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "nginx:2" })
		synctest.Wait()
		if diff := cmp.Diff(want, versions); diff != "" {
			t.Errorf("the applies hold for the versions (-want +got):\n%s", diff)
		}
	})
}
