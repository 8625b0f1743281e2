// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/generated/clientset/versioned"
)

const header = `"apiVersion":"apps.anupam.com/v1","kind":"HelloApp"`

func app(name, version, spec string) string {
	return fmt.Sprintf(`{%s,"metadata":{"name":%q,"namespace":"ns","resourceVersion":%q,"uid":"u","labels":{"a":"b"}},"spec":%s}`, header, name, version, spec)
}

func list(items ...string) string {
	return `{"apiVersion":"apps.anupam.com/v1","kind":"HelloAppList","metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":3},"items":[` +
		strings.Join(items, ",") + "]}\n"
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// deep is a value of that depth.
func deep(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

// server answers each request with a text.
type server struct {
	answer string
	status int
	urls   []string
	// breaks is how many connections end without an answer.
	breaks int
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.urls = append(s.urls, req.URL.String())
	if s.breaks > 0 {
		s.breaks--
		return nil, io.EOF
	}
	return &http.Response{
		StatusCode: max(s.status, http.StatusOK), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(s.answer)), Request: req,
	}, nil
}

func (s *server) client(t *testing.T) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(&rest.Config{Host: "http://server", Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// apps lists and watches the HelloApps of a namespace, and returns what it reports.
func (s *server) apps(t *testing.T) (*Resource, *[]string) {
	t.Helper()
	var reports []string
	return &Resource{Client: s.client(t).AppsV1().RESTClient(), Name: "helloapps", Namespace: "ns", Report: func(object runtime.Object, err error) {
		app := object.(*v1.HelloApp)
		reports = append(reports, fmt.Sprintf("%s/%s %s %s: %v", app.Namespace, app.Name, app.UID, app.ResourceVersion, err))
	}}, &reports
}

// received returns all events of a watch.
func received(t *testing.T, w watch.Interface, err error) (events []watch.Event) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		events = append(events, e)
	}
	return events
}

// TestTheSameAsTheGeneratedClient: requests, lists and events are those of the generated client if everything can be decoded.
func TestTheSameAsTheGeneratedClient(t *testing.T) {
	options := metav1.ListOptions{LabelSelector: "a=b", ResourceVersion: "5", Limit: 7, TimeoutSeconds: ptr.To(int64(8)), AllowWatchBookmarks: true}
	objects := []string{app("x", "1", `{"size":1}`), app("y", "2", `{"size":2,"image":"a\"b"}`)}
	for name, answer := range map[string]string{"items": list(objects...), "no items": list(), "null": strings.Replace(list(), "[]", "null", 1)} {
		s := &server{answer: answer}
		r, _ := s.apps(t)
		got, err := r.list(t.Context(), options)
		want, wantErr := s.client(t).AppsV1().HelloApps("ns").List(t.Context(), options)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if s.urls[0] != s.urls[1] {
			t.Errorf("requests: %q", s.urls)
		}
	}
	status := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`
	s := &server{answer: event("ADDED", objects[0]) + event("MODIFIED", objects[1]) + event("DELETED", objects[0]) +
		event("BOOKMARK", `{`+header+`,"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"size":0}}`) + event("ERROR", status)}
	r, _ := s.apps(t)
	w, err := r.watch(t.Context(), options)
	got := received(t, w, err)
	w, err = s.client(t).AppsV1().HelloApps("ns").Watch(t.Context(), options)
	if diff := cmp.Diff(received(t, w, err), got); diff != "" || len(got) != 5 {
		t.Errorf("%d events: %s", len(got), diff)
	}
	if s.urls[0] != s.urls[1] {
		t.Errorf("requests: %q", s.urls)
	}
}

func TestUndecodableItemsAreLeftOut(t *testing.T) {
	s := &server{answer: list(app("x", "1", `{"size":1}`), app("bad", "2", `{"size":"many"}`), app("deep", "3", deep(9_998)),
		app("y", "4", `{"size":2}`), app("list", "5", "[]"))}
	r, reports := s.apps(t)
	got, err := r.list(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, app := range got.(*v1.HelloAppList).Items {
		names = append(names, fmt.Sprintf("%s %d", app.Name, app.Spec.Size))
	}
	if diff := cmp.Diff([]string{"x 1", "deep 0", "y 2"}, names); diff != "" {
		t.Error(diff)
	}
	meta := got.(*v1.HelloAppList).ListMeta
	if meta.ResourceVersion != "9" || meta.Continue != "c" || ptr.Deref(meta.RemainingItemCount, 0) != 3 {
		t.Errorf("the metadata of the list is %+v", meta)
	}
	if len(*reports) != 2 || !strings.HasPrefix((*reports)[0], "ns/bad u 2: ") || !strings.Contains((*reports)[0], "spec.size") ||
		!strings.HasPrefix((*reports)[1], "ns/list u 5: ") {
		t.Errorf("the reports are %q", *reports)
	}
}

func TestAnObjectThatBecomesUndecodableIsDeleted(t *testing.T) {
	bad := app("x", "2", `{"size":"many"}`)
	s := &server{answer: event("ADDED", app("x", "1", `{"size":1}`)) + event("MODIFIED", bad) + event("ADDED", app("y", "3", deep(9_999))) +
		event("MODIFIED", app("x", "4", `{"size":4}`)) + event("DELETED", bad)}
	r, reports := s.apps(t)
	w, err := r.watch(t.Context(), metav1.ListOptions{})
	var got []string
	for _, e := range received(t, w, err) {
		app := e.Object.(*v1.HelloApp)
		got = append(got, fmt.Sprintf("%s %s/%s %s %v %d", e.Type, app.Namespace, app.Name, app.ResourceVersion, app.Labels, app.Spec.Size))
	}
	want := []string{
		"ADDED ns/x 1 map[a:b] 1", "DELETED ns/x 2 map[a:b] 0", "ADDED ns/y 3 map[a:b] 0", "MODIFIED ns/x 4 map[a:b] 4", "DELETED ns/x 2 map[a:b] 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(*reports) != 1 || !strings.HasPrefix((*reports)[0], "ns/x u 2: ") {
		t.Errorf("the reports are %q", *reports)
	}
}

func TestBrokenAnswers(t *testing.T) {
	good := app("x", "1", `{"size":1}`)
	for _, answer := range []string{
		"", "{}", "null", "[]", "<html>", list(good)[:80], list("5"), list(good, `{"metadata":{"name":"x"},"spec":5}`), list(`{` + header + `,"metadata":5}`),
		list(`{"kind":"Status","apiVersion":"v1","spec":5,"code":"x"}`), list(`{"kind":"Status","apiVersion":"v1","spec":5}`),
	} {
		r, _ := (&server{answer: answer}).apps(t)
		if got, err := r.list(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("the list %.80s is decoded: %+v", answer, got)
		}
	}
	first := event("ADDED", good)
	for _, answer := range []string{
		"{}\n", "null\n", "<html>\n", event("RENAMED", good), event("ADDED", `{"metadata":{}}`), event("ADDED", "5"), `{"type":"ADDED"}` + "\n",
		event("BOOKMARK", app("x", "1", "5")), `{"type":5,"object":{}}` + "\n",
	} {
		r, _ := (&server{answer: first + answer + first}).apps(t)
		w, err := r.watch(t.Context(), metav1.ListOptions{})
		events := received(t, w, err)
		if len(events) != 2 || events[1].Type != watch.Error {
			t.Errorf("the events with %s are %v", answer, events)
			continue
		}
		if err := apierrors.FromObject(events[1].Object); !strings.Contains(err.Error(), "unable to decode an event from the watch stream") {
			t.Errorf("the error with %s is %v", answer, err)
		}
	}
	for _, answer := range []string{first, strings.TrimSuffix(first, "\n"), first + `{"type":"ADDED","obj`, first + `{"type":"ADDED"`} { // the connection ends
		r, _ := (&server{answer: answer}).apps(t)
		w, err := r.watch(t.Context(), metav1.ListOptions{})
		if events := received(t, w, err); len(events) != 1 {
			t.Errorf("the events with %s are %v", answer, events)
		}
	}
}

// TestErrorsOfTheServer: an informer decides by their reasons and causes how it goes on.
func TestErrorsOfTheServer(t *testing.T) {
	for _, status := range []string{
		`"reason":"Forbidden","code":403,"message":"User \"u\" cannot list resource"`,
		`"reason":"NotFound","code":404,"message":"not served"`,
		`"reason":"Expired","code":410,"message":"too old resource version: 1 (2)"`,
		`"reason":"Timeout","code":504,"message":"Timeout: Too large resource version: 9, current: 5","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}`,
		`"code":200,"message":"a proxy"`,
	} {
		var code int
		if _, err := fmt.Sscanf(status[strings.Index(status, `"code":`):], `"code":%d`, &code); err != nil {
			t.Fatal(err)
		}
		s := &server{status: code, answer: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` + status + `}`}
		r, _ := s.apps(t)
		_, want := s.client(t).AppsV1().HelloApps("ns").List(t.Context(), metav1.ListOptions{})
		_, got := r.list(t.Context(), metav1.ListOptions{})
		if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || got == nil {
			t.Errorf("the error of a list: %s", diff)
		}
		if code == http.StatusOK {
			continue
		}
		_, want = s.client(t).AppsV1().HelloApps("ns").Watch(t.Context(), metav1.ListOptions{})
		_, got = r.watch(t.Context(), metav1.ListOptions{})
		if apierrors.ReasonForError(want) != apierrors.ReasonForError(got) || got == nil {
			t.Errorf("the error of a watch is %v, want %v", got, want)
		}
	}
}

// TestBrokenConnections: a watch is requested again, so that the informer need not list again.
func TestBrokenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for breaks, want := range map[int]int{0: 1, 2: 1, maxRetries: 1, maxRetries + 1: 0} {
			s := &server{answer: event("ADDED", app("x", "1", `{"size":1}`)), breaks: breaks}
			r, _ := s.apps(t)
			w, err := r.watch(t.Context(), metav1.ListOptions{})
			if events := received(t, w, err); len(events) != want {
				t.Errorf("after %d breaks the events are %v", breaks, events)
			}
		}
		s := &server{breaks: 1 << 20}
		r, _ := s.apps(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w, err := r.watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		if len(s.urls) > 1 {
			t.Errorf("%d requests after the end of the context", len(s.urls))
		}
	})
}

// TestHandlersGetWhatTheObjectWas: with the labels that it had, by which they find what it concerned.
func TestHandlersGetWhatTheObjectWas(t *testing.T) {
	s := &server{answer: event("MODIFIED", app("x", "2", `{"size":"many"}`)) + event("MODIFIED", app("other", "3", `{"size":"many"}`))}
	r, _ := s.apps(t)
	known := &v1.HelloApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u", ResourceVersion: "1", Labels: map[string]string{"was": "there"}}, Spec: v1.HelloAppSpec{Size: 7},
	}
	r.Known = func(name cache.ObjectName) runtime.Object {
		if known.Name = "x"; name.Name != known.Name {
			return nil
		}
		return known
	}
	w, err := r.watch(t.Context(), metav1.ListOptions{})
	got := received(t, w, err)
	want := known.DeepCopy()
	want.ResourceVersion = "2"
	if diff := cmp.Diff(watch.Event{Type: watch.Deleted, Object: want}, got[0]); diff != "" {
		t.Error(diff)
	}
	if other := got[1].Object.(*v1.HelloApp); other.Name != "other" || got[1].Type != watch.Deleted {
		t.Errorf("the second event is %v", got[1])
	}
	if known.ResourceVersion != "1" {
		t.Error("the object in the cache was changed")
	}
	known.UID = "of another"
	w, err = r.watch(t.Context(), metav1.ListOptions{})
	if first := received(t, w, err)[0].Object.(*v1.HelloApp); first.UID != "u" {
		t.Errorf("the object has the UID %s of the one before", first.UID)
	}
}

// TestStop: a watch that is stopped ends, although the server sends nothing.
func TestStop(t *testing.T) {
	reader, writer := io.Pipe()
	defer writer.Close()
	s := &server{}
	r, _ := s.apps(t)
	stream := watch.NewStreamWatcher(newEvents(r, reader), apierrors.NewClientErrorReporter(500, "GET", "test"))
	stream.Stop()
	received(t, stream, nil)
}
