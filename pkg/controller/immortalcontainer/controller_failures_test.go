// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

const (
	saysConflict  = `event Warning ErrResourceExists "Resource \"x-immortalpod\" already exists and is not managed by ImmortalContainer"`
	isConflicting = "status: start 1, seen 0, generation 1, Ready=False Conflict, Progressing=True Creating, Conflict=True ErrResourceExists"
	getsPod       = "get Pod x-immortalpod"
)

// times returns the error n times.
func times(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func TestConflictStopsTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		conflict := apierrors.NewConflict(containers.GroupResource(), "x", errors.New("modified"))
		a.Fail("update immortalcontainers/status", conflict)
		_, logged := a.operate()
		a.wants("the first try, which reserves nothing and so creates nothing", "update immortalcontainers: "+conflict.Error())
		time.Sleep(time.Second)
		a.wants("the second", reserveFirst, createsFirst, startedFirst)
		for _, entry := range logged() {
			if entry.Err != nil {
				t.Errorf("logged as an error: %v", entry)
			}
		}
	})
}

func TestOutageKeepsTheStartNumber(t *testing.T) {
	for name, err := range map[string]error{
		"internal error":    apierrors.NewInternalError(errors.New("etcd is tired")),
		"too many requests": apierrors.NewTooManyRequests("later", 1),
		"timeout":           apierrors.NewTimeoutError("slow", 1),
		"no connection":     errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Fail("create pods", times(3, err)...)
				a.operate()
				time.Sleep(time.Minute)
				failed := "create pods: " + err.Error()
				a.wants("until it is done", reserveFirst, failed, failed, failed, createsFirst, startedFirst)
			})
		})
	}
}

func TestQuotaExceeded(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		quota := apierrors.NewForbidden(fakeapi.Pods.GroupResource(), "x-immortalpod", errors.New("exceeded quota: compute"))
		a.Fail("create pods", times(12, quota)...)
		a.operate()
		time.Sleep(2 * time.Minute)
		tried, rest := 0, []string{}
		for _, request := range a.took() {
			if request == "create pods: "+quota.Error() {
				tried++
				continue
			}
			rest = append(rest, request)
		}
		if tried != 12 {
			t.Errorf("tried %d times, want 12 in two minutes", tried)
		}
		want := []string{reserveFirst,
			"status: start 1, seen 0, generation 1, Ready=False Forbidden, Progressing=True Creating",
			createsFirst,
			// The Pod that fits says so.
			"status: start 1, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
			fmt.Sprintf("event Warning FailedCreate %q", quota.Error()), startedFirst}
		if diff := diffLines(want, rest); diff != "" {
			t.Errorf("apart from the tries (-want +got):\n%s", diff)
		}
	})
}

// A default of a LimitRange was the cause, which is edited after an hour.
func TestInvalidPodIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "x-immortalpod",
			field.ErrorList{field.Invalid(field.NewPath("spec", "containers").Index(0).Child("resources", "requests"), "2", "must be less than or equal to cpu limit of 1")})
		a.Fail("create pods", times(1000, invalid)...)
		stop, _ := a.operate()
		time.Sleep(time.Minute)
		tried := "create pods: " + invalid.Error()
		rest := slices.DeleteFunc(a.took(), func(line string) bool { return line == tried })
		if diff := diffLines([]string{reserveFirst,
			"status: start 1, seen 0, generation 1, Ready=False Invalid, Progressing=True Creating",
			fmt.Sprintf("event Warning FailedCreate %q", invalid.Error())}, rest); diff != "" {
			t.Errorf("in a minute, apart from the tries (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour - time.Minute)
		a.took()
		time.Sleep(time.Hour)
		a.wants("an hour later, in an hour", slices.Repeat([]string{tried}, 12)...)
		a.Fail("create pods")
		time.Sleep(5 * time.Minute)
		a.wants("when it is valid", createsFirst,
			"status: start 1, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating", startedFirst)
		stop()
	})
}

func TestTerminatingNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		terminating := apierrors.NewForbidden(fakeapi.Pods.GroupResource(), "x-immortalpod", errors.New("unable to create new content in namespace default because it is being terminated"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		a.Fail("create pods", times(100, terminating)...)
		_, logged := a.operate()
		time.Sleep(time.Second)
		// The reservation and each of its events cause a try, depending on which the watch shows first.
		if took := a.took(); len(took) > 4 {
			t.Errorf("took %d requests, want a reservation and at most three tries: %q", len(took), took)
		}
		time.Sleep(time.Hour)
		a.wants("after that")
		for _, entry := range logged() {
			if entry.Err != nil {
				t.Errorf("logged as an error: %v", entry)
			}
		}
	})
}

func TestLostAnswerOfACreate(t *testing.T) {
	for name, err := range map[string]error{
		"with a timeout of the server": apierrors.NewTimeoutError("the answer was lost", 1),
		"with a broken connection":     errors.New("unexpected EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Lose("create pods", err)
				a.operate()
				time.Sleep(time.Minute)
				a.podBecomes(podReady)
				time.Sleep(time.Hour)
				if status := a.container().Status; status.StartTimes != 1 || len(a.starts) != 1 || status.CurrentPod == "" {
					t.Errorf("%d Pods were created, and the status is %s; want one start, shown", len(a.starts), describeStatus(status))
				}
			})
		})
	}
}

func TestLostAnswerOfAReservation(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.Lose("update immortalcontainers/status", errors.New("unexpected EOF"))
		a.operate()
		time.Sleep(time.Hour)
		a.wants("until the Pod is there", reserveFirst, createsFirst, startedFirst)
	})
}

func TestForeignPod(t *testing.T) {
	for name, options := range map[string][]podOption{
		"that is not in our watch":        {podForeign, podUnlabelled},
		"that carries our label":          {podForeign},
		"of another ImmortalContainer":    {func(p *corev1.Pod) { p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "y", "uid-y" }},
		"that is foreign and has failed":  {podForeign, podUnlabelled, podEnded(1, "Error", 0)},
		"that terminates for a long time": {podForeign, podUnlabelled, podTerminating(0)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				foreign := podOf(0, append(options, func(p *corev1.Pod) { p.UID = "uid-foreign" })...)
				a.podAppears(foreign)
				a.operate()
				time.Sleep(time.Hour)
				events, writes := 0, 0
				for _, request := range a.took() {
					switch {
					case request == saysConflict:
						events++
					case strings.HasPrefix(request, "status: ") && strings.Contains(request, "Conflict=True"):
						writes++
					case strings.HasPrefix(request, "delete"), strings.HasPrefix(request, "patch"):
						t.Errorf("the foreign Pod is touched: %s", request)
					}
				}
				if events != 1 || writes != 1 {
					t.Errorf("the conflict is reported by %d events and %d status writes, want one each", events, writes)
				}
				a.removePod()
				time.Sleep(time.Minute)
				a.took()
				if pod := a.pod(); pod == nil || pod.UID == "uid-foreign" || startOf(pod) != 1 || len(a.starts) != 1 {
					t.Errorf("a minute after the foreign Pod has gone there is %v, want our first", pod)
				}
			})
		})
	}
}

func TestANameThatIsTakenByOurOwnPodIsNoConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Status = creating(1, reserved) })
		a.podAppears(podOf(1, podUnlabelled))
		a.operate()
		time.Sleep(time.Hour)
		a.wants("of a start that was done by another process, and whose Pod lost its label", createsFirst, getsPod,
			`patch Pod x-immortalpod {"metadata":{"labels":{"app.kubernetes.io/managed-by":"millwright","controller-uid":"uid-x"},"uid":"uid-pod-1"}}`)
	})
}

func TestNameTakenByEarlierOwner(t *testing.T) {
	for name, options := range map[string][]podOption{"in our watch": nil, "that lost its label": {podUnlabelled}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.podAppears(podOf(7, append(options, podOfEarlierOwner)...))
				a.operate()
				time.Sleep(time.Minute)
				if got := a.took(); len(got) > 20 {
					t.Errorf("took %d requests in a minute: %q", len(got), got)
				}
				a.podIsDeleted()
				a.podGoes()
				time.Sleep(time.Minute)
				if pod, status := a.pod(), a.container().Status; pod == nil || startOf(pod) != 1 || status.StartTimes != 1 {
					t.Errorf("a minute after it has gone there is %v, and the status is %s; want our first", pod, describeStatus(status))
				}
			})
		})
	}
}

func TestALivePodThatCannotBeReadIsNotTakenForGone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		a.podBecomes(podUnlabelled)
		failure := apierrors.NewInternalError(errors.New("etcd is tired"))
		a.Fail("get pods", times(2, failure)...)
		a.operate()
		time.Sleep(time.Minute)
		failed := "get pods: " + failure.Error()
		a.wants("until it can be read", failed, failed, getsPod,
			`patch Pod x-immortalpod {"metadata":{"labels":{"app.kubernetes.io/managed-by":"millwright","controller-uid":"uid-x"},"uid":"uid-pod-1"}}`)
	})
}

func TestFailedDeletionIsRetried(t *testing.T) {
	replaced := `event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"the server fails": {apierrors.NewInternalError(errors.New("etcd is tired")),
			[]string{"delete pods: Internal error occurred: etcd is tired", deletesFirst}},
		"the Pod is another one now": {apierrors.NewConflict(fakeapi.Pods.GroupResource(), "x-immortalpod", errors.New("UID")),
			[]string{"delete pods: " + apierrors.NewConflict(fakeapi.Pods.GroupResource(), "x-immortalpod", errors.New("UID")).Error(), deletesFirst}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				coldStart(a)
				a.Fail("delete pods", times(1, tc.err)...)
				a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
				time.Sleep(10 * time.Second)
				a.wants("at the edit", append(append([]string{isReplacing}, tc.want...), replaced)...)
			})
		})
	}
}

func TestADeletionOfAPodThatIsGoneAlreadyIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.Fail("delete pods", times(1, apierrors.NewNotFound(fakeapi.Pods.GroupResource(), "x-immortalpod"))...)
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
		time.Sleep(10 * time.Second)
		a.wants("at the edit", isReplacing, `delete pods: pods "x-immortalpod" not found`,
			`event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`)
		a.podIsDeleted()
		a.podGoes()
		time.Sleep(10 * time.Second)
		a.wants("when the watch shows that it is gone",
			"status: start 2, seen 1, generation 2, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating", createsSecond, startedNext)
	})
}
