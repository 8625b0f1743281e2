// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// posted are the events that reached the API server, in order.
func posted(client *fake.Clientset) []corev1.Event {
	var events []corev1.Event
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && create.GetResource().Resource == "events" {
			events = append(events, *create.GetObject().(*corev1.Event))
		}
	}
	return events
}

func messagesOf(events []corev1.Event) []string {
	var messages []string
	for i := range events {
		messages = append(messages, events[i].Message)
	}
	return messages
}

func startEvents(t *testing.T, client *fake.Clientset) *Events {
	ctx, _ := testContext(t)
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(func() {
		stop()
		synctest.Wait() // the broadcaster's goroutines end
	})
	return StartEvents(ctx, client)
}

func TestEventsArePostedInTheNameOfTheirComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := startEvents(t, client)
		pod := podOf("red")
		pod.UID = "uid"
		events.Recorder(scheme.Scheme, "hello").Event(pod, corev1.EventTypeWarning, "Burnt", "toast")
		if err := events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := posted(client)
		if len(got) != 1 {
			t.Fatalf("posted %d events, want one: %v", len(got), got)
		}
		now := metav1.Now()
		want := corev1.Event{
			ObjectMeta:          metav1.ObjectMeta{Namespace: "default", Name: got[0].Name},
			InvolvedObject:      corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: "pod", UID: "uid"},
			Type:                corev1.EventTypeWarning,
			Reason:              "Burnt",
			Message:             "toast",
			Source:              corev1.EventSource{Component: "hello"},
			ReportingController: "hello",
			FirstTimestamp:      now,
			LastTimestamp:       now,
			Count:               1,
		}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	})
}

// By default the tenth distinct message of a reason is folded into one "(combined from similar events)", and past 25
// events of an object only one in five minutes is posted.
func TestDistinctMessagesAreAllPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprintf("flipped switch %d", i))
			recorder.Event(podOf("red"), corev1.EventTypeNormal, "Flipped", want[i])
		}
		if err := events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, messagesOf(posted(client))); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

func TestSimilarEventsAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder := startEvents(t, client).Recorder(scheme.Scheme, "test")
		for i := range maxSimilarEvents + 50 {
			recorder.Event(podOf("red"), corev1.EventTypeNormal, "Flipped", fmt.Sprintf("flipped switch %d", i))
			if i%100 == 0 {
				synctest.Wait() // otherwise they do not fit in the queue
			}
		}
		synctest.Wait()
		messages := messagesOf(posted(client))
		if last := messages[len(messages)-1]; len(messages) != maxSimilarEvents || !strings.HasPrefix(last, "(combined from similar events)") {
			t.Errorf("%d events are posted, the last one is %q", len(messages), last)
		}
	})
}

func TestEventRateOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		const count = eventBurst + 100
		for i := range count {
			recorder.Event(podOf("red"), corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), "")
			time.Sleep(10 * time.Second)
		}
		if got := len(posted(client)); got != count {
			t.Errorf("posted %d of %d events", got, count)
		}
	})
}

// One broadcaster of client-go drops most of these.
func TestBurstOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var posted atomic.Int32
		allRecorded := make(chan struct{})
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			<-allRecorded // a slow API server
			posted.Add(1)
			return true, action.(clienttesting.CreateAction).GetObject(), nil
		})
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		const objects, each = 4000, 2
		for i := range objects {
			pod := podOf("red")
			pod.Name = fmt.Sprintf("pod-%d", i)
			for event := range each {
				recorder.Event(pod, corev1.EventTypeNormal, fmt.Sprintf("Reason%d", event), "")
			}
		}
		close(allRecorded)
		if err := events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := posted.Load(); got != objects*each {
			t.Errorf("posted %d of %d events", got, objects*each)
		}
	})
}

// client-go gives an event up for any answer of the API server.
func TestEventIsPostedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		failures := []error{apierrors.NewInternalError(errors.New("etcdserver: request timed out")), apierrors.NewTooManyRequests("busy", 0)}
		var posted []string
		var mu sync.Mutex
		fail := func(message string) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(failures) == 0 {
				posted = append(posted, message)
				return false, nil, nil
			}
			err := failures[0]
			failures = failures[1:]
			return true, nil, err
		}
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return fail("create")
		})
		client.PrependReactor("patch", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return fail("patch")
		})
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		recorder.Event(podOf("red"), corev1.EventTypeNormal, "Flipped", "x")
		time.Sleep(time.Minute)
		mu.Lock()
		failures = append(failures, apierrors.NewInternalError(errors.New("etcdserver: no leader")))
		mu.Unlock()
		recorder.Event(podOf("red"), corev1.EventTypeNormal, "Flipped", "x") // the second time is a patch of the count
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"create", "patch"}, posted); diff != "" {
			t.Errorf("posted (-want +got):\n%s", diff)
		}
	})
}

func TestFlushWaitsForWhatWasRecordedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Second) // a slow API server
			return false, nil, nil
		})
		events := startEvents(t, client)
		recorder := events.Recorder(scheme.Scheme, "test")
		for i := range 5 {
			recorder.Event(podOf("red"), corev1.EventTypeNormal, "Slow", fmt.Sprint(i))
		}
		begin := time.Now()
		if err := events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 5*time.Second {
			t.Errorf("Flush took %v, want the 5s that five events take", got)
		}
		if diff := cmp.Diff([]string{"0", "1", "2", "3", "4"}, messagesOf(posted(client))); diff != "" {
			t.Errorf("posted, and nothing of Flush itself (-want +got):\n%s", diff)
		}
	})
}

func TestConcurrentFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := startEvents(t, client)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				mine := fmt.Sprint("mine ", i)
				events.Recorder(scheme.Scheme, mine).Event(podOf("red"), corev1.EventTypeNormal, "Parallel", mine)
				if err := events.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				for _, message := range messagesOf(posted(client)) {
					if message == mine {
						return
					}
				}
				t.Errorf("%q was not posted when Flush returned", mine)
			})
		}
		wg.Wait()
		if got := len(posted(client)); got != 20 {
			t.Errorf("posted %d events, want 20", got)
		}
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		answers := make(chan struct{})
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-answers
			return false, nil, nil
		})
		events := startEvents(t, client)
		events.Recorder(scheme.Scheme, "test").Event(podOf("red"), corev1.EventTypeNormal, "Lost", "")

		patience, enough := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("shutting down"))
		defer enough()
		begin := time.Now()
		err := events.Flush(patience)
		if got := time.Since(begin); got != 3*time.Second {
			t.Errorf("Flush took %v, want the 3s of its context", got)
		}
		if err == nil {
			t.Fatal("Flush says that all was posted")
		}
		wantContains(t, err.Error(), "not posted", "shutting down")
		close(answers)
	})
}
