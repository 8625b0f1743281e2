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

// stepsOf are those of each object, in a recording of one phase.
func stepsOf(resource string, requests ...traffic.Request) (steps map[string][]step, err error) {
	scripts, err := scripts(kinds[resource], traffic.Recording{Namespace: "bench-0001", Phases: [][]traffic.Request{requests}}, "bench-0002")
	steps = map[string][]step{}
	for object, script := range scripts {
		steps[object] = script.phases[0]
	}
	return steps, err
}

// describe names the requests, with a line for each step, and what they wait for.
func describe(t *testing.T, steps []step) (lines []string) {
	t.Helper()
	for _, s := range steps {
		var names []string
		for _, r := range append(s.requests, s.events...) {
			names = append(names, nameOf(t, r))
		}
		line := strings.Join(names, " + ")
		if s.wait.what != "" {
			line += " when " + s.wait.what
		}
		lines = append(lines, line)
	}
	return lines
}

func nameOf(t *testing.T, r *request) string {
	t.Helper()
	body := r.body.fill(nil)
	switch {
	case r.Kind() == "update immortalcontainers/status":
		container := &v1alpha1.ImmortalContainer{}
		if err := json.Unmarshal(body, container); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("status of start %d", container.Status.StartTimes)
	case r.Verb != "create":
		return r.Kind()
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Resource + " " + obj.(metav1.Object).GetName()
}

func TestARecoveryIsReplayedInItsOrderWithTheEventRightAfterThePod(t *testing.T) {
	steps, err := stepsOf("immortalcontainers",
		statusOf(t, "a", 1, 1, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTermination),
		statusOf(t, "b", 2, 1, metav1.ConditionFalse, v1alpha1.ReasonCreating),
		statusOf(t, "a", 2, 1, metav1.ConditionFalse, v1alpha1.ReasonCreating),
		creationOf(t, "a", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-immortalpod"}}),
		statusOf(t, "a", 2, 2, metav1.ConditionTrue, v1alpha1.ReasonRunning),
		creationOf(t, "a", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a.1"}}),
		traffic.Request{Verb: "get", Resource: "pods", Object: "b", Code: 200},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"status of start 1 when terminating", "status of start 2 when gone", "pods a-immortalpod + events a.1 when gone", "status of start 2 when ready"}
	if got := describe(t, steps["a"]); !slices.Equal(got, want) {
		t.Errorf("the steps of a are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := describe(t, steps["b"]), []string{"status of start 2 when gone", "get pods"}; !slices.Equal(got, want) {
		t.Errorf("the steps of b are %q, want %q", got, want)
	}
}

func TestRequestsThatWereRefusedOrAreAboutNoObjectAreLeftOut(t *testing.T) {
	refused := statusOf(t, "a", 1, 0, metav1.ConditionFalse, v1alpha1.ReasonCreating)
	refused.Code = 409
	steps, err := stepsOf("immortalcontainers", refused, traffic.Request{Verb: "list", Resource: "pods", Code: 200})
	if err != nil || len(steps) != 0 {
		t.Errorf("got %v (%v), want both left out", steps, err)
	}
}

func TestARequestThatCannotBeReadIsNamed(t *testing.T) {
	_, err := stepsOf("immortalcontainers", traffic.Request{Verb: "update", Resource: "immortalcontainers/status", Object: "web", Code: 200, Body: []byte("{")})
	if err == nil || !strings.Contains(err.Error(), "update immortalcontainers/status of web") {
		t.Errorf("got %v", err)
	}
}

func TestRequestsThatWereSentAtOnceAreOneStepAndTheEventsComeAfterTheLastOfThem(t *testing.T) {
	create := func(name string, began, answered int64) traffic.Request {
		r := creationOf(t, "m", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
		r.Resource, r.Began, r.Answered = "switches", began, answered
		return r
	}
	status := traffic.Request{Verb: "update", Resource: "machines/status", Object: "m", Code: 200, Began: 9, Answered: 12}
	event := creationOf(t, "m", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "m.1"}})
	event.Began, event.Answered = 10, 11
	// The second and the third are under way at the same time; the fourth has waited for one of them.
	steps, err := stepsOf("machines", create("s1", 1, 2), create("s2", 3, 5), create("s3", 4, 7), create("s4", 6, 8), status, event)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"switches s1", "switches s2 + switches s3", "switches s4 + events m.1", "update machines/status"}
	if got := describe(t, steps["m"]); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheChildOfAParentComesBeforeItsStatusAndWaitsForNothing(t *testing.T) {
	parent := func(verb, resource string) traffic.Request {
		return traffic.Request{Verb: verb, Resource: resource, Object: "p", Code: 200}
	}
	child := creationOf(t, "p", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p-0000"}})
	child.Resource, child.Began, child.Answered = "configmaps", 1, 2
	status, event := parent("update", "parents/status"), creationOf(t, "p", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "p.1"}})
	status.Began, status.Answered, event.Began, event.Answered = 3, 4, 5, 6
	steps, err := stepsOf("parents", child, status, event)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(t, steps["p"]), []string{"configmaps p-0000 + events p.1", "update parents/status"}; !slices.Equal(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}

func TestANamespaceWithANameOfAnotherLengthIsRefused(t *testing.T) {
	_, err := scripts(kinds["machines"], traffic.Recording{Namespace: "bench-0001"}, "bench")
	if err == nil || !strings.Contains(err.Error(), `recorded in namespace "bench-0001"`) {
		t.Errorf("got %v", err)
	}
}
