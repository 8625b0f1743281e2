// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

func statusOf(t *testing.T, object string, starts, observed int64, ready metav1.ConditionStatus, progressing string) traffic.Request {
	t.Helper()
	body, err := json.Marshal(&v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: object},
		Status: v1alpha1.ImmortalContainerStatus{StartTimes: starts, ObservedStart: observed, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: ready},
			{Type: v1alpha1.ConditionProgressing, Reason: progressing},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return traffic.Request{Verb: "update", Resource: "immortalcontainers/status", Object: object, Code: 200, Body: body}
}

func creationOf(t *testing.T, object string, created runtime.Object) traffic.Request {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), created)
	if err != nil {
		t.Fatal(err)
	}
	resource := "pods"
	if _, event := created.(*corev1.Event); event {
		resource = "events"
	}
	return traffic.Request{Verb: "create", Resource: resource, Object: object, Code: 201, Body: body}
}

// describe names the steps and what they wait for.
func describe(steps []step) (lines []string) {
	for _, s := range steps {
		waits := map[wait]string{none: "at once", gone: "when gone", terminating: "when terminating", ready: "when ready"}[s.wait]
		switch {
		case s.status != nil:
			lines = append(lines, fmt.Sprintf("status of start %d %s", s.status.StartTimes, waits))
		case s.pod != nil:
			lines = append(lines, fmt.Sprintf("Pod %s %s", s.pod.Name, waits))
		case s.event != nil:
			lines = append(lines, fmt.Sprintf("event %s %s", s.event.Name, waits))
		case s.read:
			lines = append(lines, "read "+waits)
		}
	}
	return lines
}

func TestARecoveryIsReplayedInItsOrderWithTheEventRightAfterThePod(t *testing.T) {
	steps, leftOut, err := scripts([]traffic.Request{
		statusOf(t, "a", 1, 1, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTermination),
		statusOf(t, "b", 2, 1, metav1.ConditionFalse, v1alpha1.ReasonCreating),
		statusOf(t, "a", 2, 1, metav1.ConditionFalse, v1alpha1.ReasonCreating),
		creationOf(t, "a", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-immortalpod"}}),
		statusOf(t, "a", 2, 2, metav1.ConditionTrue, v1alpha1.ReasonRunning),
		creationOf(t, "a", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a.1"}}),
		{Verb: "get", Resource: "pods", Object: "b", Code: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	if leftOut != 0 {
		t.Errorf("%d requests are left out", leftOut)
	}
	want := []string{"status of start 1 when terminating", "status of start 2 when gone", "Pod a-immortalpod when gone", "event a.1 at once", "status of start 2 when ready"}
	if got := describe(steps["a"]); !slices.Equal(got, want) {
		t.Errorf("the steps of a are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := describe(steps["b"]), []string{"status of start 2 when gone", "read at once"}; !slices.Equal(got, want) {
		t.Errorf("the steps of b are %q, want %q", got, want)
	}
}

func TestRefusedAndUnknownRequestsAreLeftOut(t *testing.T) {
	refused := statusOf(t, "a", 1, 0, metav1.ConditionFalse, v1alpha1.ReasonCreating)
	refused.Code = 409
	steps, leftOut, err := scripts([]traffic.Request{
		refused,
		{Verb: "patch", Resource: "pods", Object: "a", Code: 200},
		{Verb: "list", Resource: "pods", Code: 200},
	})
	if err != nil || leftOut != 3 || len(steps) != 0 {
		t.Errorf("got %d left out and %v (%v), want all three left out", leftOut, steps, err)
	}
}

func TestARequestThatCannotBeReadIsNamed(t *testing.T) {
	_, _, err := scripts([]traffic.Request{{Verb: "create", Resource: "pods", Object: "web", Code: 201, Body: []byte("{")}})
	if err == nil || !strings.Contains(err.Error(), "create pods of web") {
		t.Errorf("got %v", err)
	}
}

func TestAnObjectIsParkedUntilItsPodIsWhatTheNextStepWaitsFor(t *testing.T) {
	pod := &corev1.Pod{}
	readyPod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	deletedPod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}

	o := &object{pod: gone, steps: []step{{wait: ready}}}
	if !o.park() {
		t.Fatal("it goes on without a Pod")
	}
	if o.saw(watch.Added, pod) {
		t.Error("it goes on with a Pod that is not ready")
	}
	if !o.saw(watch.Modified, readyPod) {
		t.Error("it does not go on when the Pod is ready")
	}
	if o.saw(watch.Modified, readyPod) {
		t.Error("it is handed out twice")
	}

	o.steps = []step{{wait: gone}}
	if !o.park() || o.saw(watch.Modified, deletedPod) {
		t.Error("it does not wait until the Pod is gone")
	}
	if !o.saw(watch.Deleted, deletedPod) {
		t.Error("it does not go on when the Pod is gone")
	}
	o.steps = []step{{wait: terminating}}
	if o.park() {
		t.Error("it waits for a Pod to terminate that is gone")
	}
}
