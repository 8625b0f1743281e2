// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
)

// watchFrom opens a watch, which the test stops.
func watchFrom(t *testing.T, ctx context.Context, api *upstream, options *internalversion.ListOptions) watch.Interface {
	t.Helper()
	w, err := api.rest(t, nil).Watch(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next is the next event, or false at the end of the watch.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		return event, ok
	case <-time.After(patience.Limit):
		t.Fatal("there is neither an event nor an end")
		return watch.Event{}, false
	}
}

func wantEnd(t *testing.T, w watch.Interface) {
	t.Helper()
	if event, ok := next(t, w); ok {
		t.Fatalf("there is an event %s %v, want the end", event.Type, event.Object)
	}
}

// ending closes a channel when the request that it has answered is over.
func ending(handler http.HandlerFunc) (http.HandlerFunc, <-chan struct{}) {
	over := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		handler(w, r)
	}, over
}

func wantOver(t *testing.T, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-time.After(patience.Limit):
		t.Fatal("the watch of Pods goes on")
	}
}

func TestEventsOfPodsBecomeThoseOfFarmPods(t *testing.T) {
	events := make(chan watch.Event, 8)
	mark := map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	expired := apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.").ErrStatus
	events <- watch.Event{Type: watch.Added, Object: testPod("a")}
	events <- watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "41", Annotations: mark}}}
	events <- watch.Event{Type: watch.Modified, Object: testPod("b")}
	events <- watch.Event{Type: watch.Deleted, Object: testPod("c")}
	events <- watch.Event{Type: watch.Error, Object: &expired}
	close(events)
	w := watchFrom(t, testContext(t, "barn"), newUpstream(t, streaming(events)), &internalversion.ListOptions{})
	for _, want := range []watch.Event{
		{Type: watch.Added, Object: convert(testPod("a"))},
		{Type: watch.Bookmark, Object: &farm.FarmPod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "41", Annotations: mark}}},
		{Type: watch.Modified, Object: convert(testPod("b"))},
		{Type: watch.Deleted, Object: convert(testPod("c"))},
		{Type: watch.Error, Object: &expired},
	} {
		got, _ := next(t, w)
		if status, ok := got.Object.(*metav1.Status); ok {
			status.TypeMeta = metav1.TypeMeta{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	wantEnd(t, w)
}

func TestAWatchAsksWithTheSameOptions(t *testing.T) {
	events := make(chan watch.Event)
	close(events)
	api := newUpstream(t, streaming(events))
	w := watchFrom(t, testContext(t, "barn"), api, &internalversion.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", "farm-dolly"), ResourceVersion: "7", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(300)),
	})
	wantEnd(t, w)
	want := map[string][]string{
		"watch": {"true"}, "fieldSelector": {"metadata.name=dolly"}, "resourceVersion": {"7"}, "resourceVersionMatch": {"NotOlderThan"},
		"sendInitialEvents": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"300"}, "timeout": {"5m0s"},
	}
	if diff := cmp.Diff(want, map[string][]string(api.query(t))); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/api/v1/namespaces/barn/pods"}, api.paths()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

func TestWatchOfImpossibleName(t *testing.T) {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}}
	close(events)
	api := newUpstream(t, streaming(events))
	w := watchFrom(t, testContext(t, "barn"), api, &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "dolly"),
		AllowWatchBookmarks: true})
	if got, _ := next(t, w); got.Type != watch.Bookmark {
		t.Errorf("the first event is %v, want the bookmark", got)
	}
	wantEnd(t, w)
	if got := api.query(t).Get("fieldSelector"); got != "metadata.name="+noPod {
		t.Errorf("asked for %q", got)
	}
}

func TestWatchTimeoutIsPassedOn(t *testing.T) {
	events := make(chan watch.Event)
	close(events)
	api := newUpstream(t, streaming(events))
	ctx, cancel := context.WithTimeout(testContext(t, "barn"), time.Hour)
	defer cancel()
	wantEnd(t, watchFrom(t, ctx, api, &internalversion.ListOptions{}))
	if got := api.query(t).Get("timeoutSeconds"); got != "3599" && got != "3600" {
		t.Errorf("asked with timeoutSeconds %q", got)
	}
}

func TestWatchTimeoutEndsWithoutError(t *testing.T) {
	handler, over := ending(streaming(nil))
	ctx, cancel := context.WithTimeout(testContext(t, "barn"), 50*time.Millisecond)
	defer cancel()
	wantEnd(t, watchFrom(t, ctx, newUpstream(t, handler), &internalversion.ListOptions{}))
	wantOver(t, over)
}

func TestAStoppedWatchEndsThatOfThePods(t *testing.T) {
	handler, over := ending(streaming(nil))
	w := watchFrom(t, testContext(t, "barn"), newUpstream(t, handler), &internalversion.ListOptions{})
	w.Stop()
	w.Stop() // twice does no harm
	wantEnd(t, w)
	wantOver(t, over)
}

// TestSlowClientHoldsNothingUp also proves, by goleak, that nothing is left of the watch.
func TestSlowClientHoldsNothingUp(t *testing.T) {
	events := make(chan watch.Event, 4*buffered)
	for range 4 * buffered {
		events <- watch.Event{Type: watch.Modified, Object: testPod("a")}
	}
	handler, over := ending(streaming(events))
	w := watchFrom(t, testContext(t, "barn"), newUpstream(t, handler), &internalversion.ListOptions{})
	for deadline := time.Now().Add(patience.Limit); len(w.ResultChan()) < buffered; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("his events do not arrive")
		}
	}
	w.Stop()
	wantOver(t, over)
}

// TestCutWatch: an ERROR would make its client list everything again.
func TestCutWatch(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"in an event": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			// An event of 100 bytes, of which five come.
			_, _ = w.Write([]byte{0, 0, 0, 100, 'k', '8', 's', 0, 1})
		},
		"by a reset": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"by an event that is none": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			frames := protobuf().StreamSerializer.Framer.NewFrameWriter(w)
			_, _ = frames.Write(frame(watch.Event{Type: "STRANGE", Object: testPod("a")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantEnd(t, watchFrom(t, testContext(t, "barn"), newUpstream(t, handler), &internalversion.ListOptions{}))
		})
	}
}

func TestUnreadableWatchIsClosed(t *testing.T) {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: "STRANGE", Object: testPod("a")}
	handler, over := ending(streaming(events)) // which goes on
	w := watchFrom(t, testContext(t, "barn"), newUpstream(t, handler), &internalversion.ListOptions{})
	wantEnd(t, w)
	wantOver(t, over)
}

func TestRefusedWatch(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old resource version: 1 (7)")
	api := newUpstream(t, refusing(expired.ErrStatus))
	r := api.rest(t, nil)
	if _, err := r.Watch(testContext(t, "barn"), &internalversion.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) ||
		err.Error() != expired.Error() {
		t.Errorf("error is %v", err)
	}
	api.Close()
	if _, err := r.Watch(testContext(t, "barn"), &internalversion.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error of an API server that has gone is %v", err)
	}
}
