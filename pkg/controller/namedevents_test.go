// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestTheLastEventOfABusyObjectIsPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		for i := range 2 * eventBurst {
			recorder.AnnotatedEventf(podOf("red"), NamedEvent(fmt.Sprintf("%x", i), false), corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), "%s", "busy")
			if i%100 == 0 {
				synctest.Wait() // otherwise they do not fit in the queue
			}
		}
		recorder.AnnotatedEventf(podOf("red"), NamedEvent("abc", true), corev1.EventTypeNormal, "Ended", "%s", "100% done")
		if err := events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := posted(client)
		last := got[len(got)-1]
		if len(got) != eventBurst+1 || last.Name != "pod.abc" || last.Message != "100% done" || len(last.Annotations) > 0 {
			t.Errorf("%d events were posted, the last is %+v", len(got), last)
		}
	})
}

// Two processes, of which the second does not know what the first has posted.
func TestNamedEventIsPostedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		for range 2 {
			events := startEvents(t, client)
			events.Recorder(scheme.Scheme, "test").AnnotatedEventf(podOf("red"), NamedEvent("18b0", true), corev1.EventTypeNormal, "Ended", "%s", "done")
			events.Recorder(scheme.Scheme, "test").Event(podOf("red"), corev1.EventTypeNormal, "Unnamed", "")
			if err := events.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]int{}
		for _, event := range list.Items {
			names[event.Reason]++
		}
		if names["Ended"] != 1 || names["Unnamed"] < 1 {
			t.Errorf("there are %v", names)
		}
	})
}

func TestLongEventName(t *testing.T) {
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: strings.Repeat("n", 253)}}
	event.Annotations = NamedEvent("18b0c0ffee", false)
	if posted, given := named(event); !given || len(posted.Name) > 253 || !strings.HasSuffix(posted.Name, "18b0c0ffee") {
		t.Errorf("the name has %d characters: %s", len(posted.Name), posted.Name)
	}
	event.Annotations = nil
	if posted, given := named(event); given || posted != event {
		t.Errorf("an event that has no such name is posted as %+v", posted)
	}
}

func TestWhatIsTooLargeIsNoOutage(t *testing.T) {
	refused := func(code int32, message string) error {
		return fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}})
	}
	for name, test := range map[string]struct {
		err              error
		tooLarge, outage bool
	}{
		"etcd's limit":               {refused(500, "etcdserver: request is too large"), true, false},
		"the limit of its client":    {refused(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2172357 vs. 2097152)"), true, false},
		"the API server's limit":     {fmt.Errorf("writing: %w", apierrors.NewRequestEntityTooLargeError("limit is 3145728")), true, false},
		"another internal error":     {refused(500, "etcdserver: no leader"), false, true},
		"a full etcd":                {refused(http.StatusInternalServerError, "etcdserver: mvcc: database space exceeded"), false, true},
		"the text without an answer": {errors.New("etcdserver: request is too large"), false, false},
		"none":                       {nil, false, false},
	} {
		if got := IsTooLarge(test.err); got != test.tooLarge {
			t.Errorf("%s: too large %t", name, got)
		}
		if got := isOutage(test.err); got != test.outage {
			t.Errorf("%s: an outage %t", name, got)
		}
	}
}
