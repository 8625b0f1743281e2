// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// answering returns the listWatch of a server that gives one answer, and the requests that it has had. The tests are about
// the text of answers.
func answering(t *testing.T, within scope, status int, answer string) (*listWatch, *[]string) {
	t.Helper()
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	d := &decoder{}
	config.GroupVersion = &metav1.Unversioned
	config.NegotiatedSerializer = d.negotiated()
	client, err := rest.RESTClientForConfigAndClient(config, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return &listWatch{client: client, decoder: d, resource: widgets, scope: within}, &requests
}

func TestAListOfABuiltInKindGivesItsItemsTheirKind(t *testing.T) {
	l, requests := answering(t, scope{}, 200, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7","continue":"more"},"items":[{"metadata":{"name":"a"}}, {"metadata":{"name":"b"}}]}`)
	list, err := l.list(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	got := list.(*rawList)
	if got.ResourceVersion != "7" || got.Continue != "more" || len(got.Items) != 2 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, got.Items[0].(*RawObject).JSON()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/apis/example.com/v1/widgets?limit=2"}, *requests); diff != "" {
		t.Error(diff)
	}
}

func TestListWithKindLast(t *testing.T) {
	l, _ := answering(t, scope{}, 200, `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget"}],"kind":"WidgetList","metadata":{"resourceVersion":"7"}}`)
	list, err := l.list(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.(*rawList).Items) != 1 || list.(*rawList).ResourceVersion != "7" {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestAListThatEndsTooEarlyIsAnError(t *testing.T) {
	whole := `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	for length := range whole {
		d := &decoder{}
		if list, err := d.list(strings.NewReader(whole[:length])); err == nil {
			t.Fatalf("%q is %+v", whole[:length], list)
		}
	}
	for _, text := range []string{`[]`, `{"items":{}}`, `{"items":[7]}`, `{"kind":"XList","items":[{}]}`, `{"kind":7}`} {
		d := &decoder{}
		if list, err := d.list(strings.NewReader(text)); err == nil {
			t.Errorf("%q is %+v", text, list)
		}
	}
}

func TestTheScopeOfARequestIsInItsURL(t *testing.T) {
	selector, err := labels.Parse("app=x")
	if err != nil {
		t.Fatal(err)
	}
	within, err := newScope("ns", "a", selector)
	if err != nil {
		t.Fatal(err)
	}
	l, requests := answering(t, within, 200, `{"items":null}`)
	if _, err := l.list(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/apis/example.com/v1/namespaces/ns/widgets?fieldSelector=metadata.name%3Da&labelSelector=app%3Dx"}, *requests); diff != "" {
		t.Error(diff)
	}
}

func TestARefusalIsTheErrorThatTheServerMeans(t *testing.T) {
	for _, answer := range []string{`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403}`, `no`, ``} {
		l, _ := answering(t, scope{}, 403, answer)
		if _, err := l.list(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list, %q: %v", answer, err)
		}
		if _, err := l.watch(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("watch, %q: %v", answer, err)
		}
	}
}

func TestWatchEventFormat(t *testing.T) {
	large := strings.Repeat("0123456789", 200_000)
	l, _ := answering(t, scope{}, 200, fmt.Sprintf(`{"type":"ADDED","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"},"large":%q}}
{"object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}},"type":"BOOKMARK"}
{"type":"DELETED","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"b"}}}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}
`, large))
	w, err := l.watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for event := range w.ResultChan() {
		switch o := event.Object.(type) {
		case *RawObject:
			got = append(got, fmt.Sprint(event.Type, o.GetName(), o.GetResourceVersion(), o.GetAnnotations(), strings.HasSuffix(o.JSON(), large+`"}`)))
		case *metav1.Status:
			if event.Type == watch.Error {
				got = append(got, fmt.Sprint(event.Type, apierrors.IsResourceExpired(apierrors.FromObject(o))))
			}
		}
	}
	want := []string{
		"ADDEDamap[] true",
		"BOOKMARK9map[k8s.io/initial-events-end:true] false",
		"DELETEDbmap[] false",
		"ERRORtrue",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
