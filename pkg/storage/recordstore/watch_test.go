// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func parse(t testing.TB, selector string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parseFields(t testing.TB, selector string) fields.Selector {
	t.Helper()
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// streaming sends the texts, and then goes on until the client goes.
func streaming(texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Join(texts, "\n"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }

// received returns the events of a watch of the stream until it ends, or nothing more comes.
func received(t *testing.T, stream http.HandlerFunc, ends bool) []watch.Event {
	t.Helper()
	store, _ := newServer(t, stream)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := store.Watch(ctx, "/llamas", storage.ListOptions{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	events := []watch.Event{}
	for {
		event, open := watch.Event{}, false
		select {
		case event, open = <-w.ResultChan():
		case <-time.After(3 * time.Minute):
			t.Fatalf("nothing comes after %v", events)
		}
		if !open {
			return events
		}
		if events = append(events, event); !ends && event.Type == watch.Bookmark {
			w.Stop()
		}
	}
}

func TestEventsOfRecordsAreEventsOfLlamas(t *testing.T) {
	bookmark := `{"kind":"LlamaRecord","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"object":null}}`
	events := received(t, streaming(event("ADDED", dolly(5, 1)), event("MODIFIED", dolly(6, 2)), event("UNHEARD OF", `{}`), `{"type":7}`,
		event("DELETED", dolly(7, 2)), event("BOOKMARK", bookmark)), false)
	got := []string{}
	for _, event := range events {
		llama := event.Object.(*farmv1alpha.Llama)
		got = append(got, fmt.Sprint(event.Type, " ", llama.ResourceVersion, llama.Name, llama.UID, llama.Kind, " ", llama.Spec.Weight, llama.Annotations))
	}
	want := "[ADDED 5dollyof-the-llama 1 map[] MODIFIED 6dollyof-the-llama 2 map[] DELETED 7dollyof-the-llama 2 map[] BOOKMARK 9 0 map[k8s.io/initial-events-end:true]]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestWatchErrorEndsTheWatch(t *testing.T) {
	for name, test := range map[string]struct {
		event string
		is    func(error) bool
		text  string
	}{
		"the past is forgotten": {event("ERROR", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 5 (6)","reason":"Expired","code":410}`),
			apierrors.IsResourceExpired, "too old resource version: 5 (6)"},
		"a right was taken": {event("ERROR", `{"status":"Failure","message":"llamarecords.storage.farm.example.com is gone","reason":"NotFound","details":{"name":"x","group":"storage.farm.example.com","kind":"llamarecords"},"code":404}`),
			apierrors.IsNotFound, "llamas.farm.example.com is gone"},
		"what is no llama": {event("MODIFIED", recordOf("heavy", 3, llamaOf("heavy", `"much"`))), apierrors.IsInternalError, "spec.object of LlamaRecord default/heavy is no Llama"},
		"what is no event": {`{"type":"ADDED","object":7}`, apierrors.IsInternalError, "spec.object of LlamaRecord"},
		"what is no JSON":  {`}`, apierrors.IsInternalError, "the watch of the records of llamas.farm.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			events := received(t, streaming(event("ADDED", dolly(5, 1)), test.event, event("MODIFIED", dolly(6, 1))), true)
			if len(events) != 2 || events[1].Type != watch.Error {
				t.Fatalf("got %v", events)
			}
			if err := apierrors.FromObject(events[1].Object); !test.is(err) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAWatchThatBreaksOffEndsWithoutAnError(t *testing.T) {
	for name, stream := range map[string]http.HandlerFunc{
		"in time": answering(200, event("ADDED", dolly(5, 1))+"\n"),
		"amid an event": func(w http.ResponseWriter, r *http.Request) {
			answering(200, event("ADDED", dolly(5, 1))+"\n"+`{"type":"MODIFIED","object":{"meta`)(w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		if events := received(t, stream, true); len(events) != 1 || events[0].Type != watch.Added {
			t.Errorf("%s: %v", name, events)
		}
	}
}

func TestAWatchLastsAsLongAsItsRequest(t *testing.T) {
	store, server := newServer(t, streaming())
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	w, err := store.Watch(ctx, "/llamas", storage.ListOptions{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	<-w.ResultChan()
	if asked := server.asked(); len(asked) != 1 || !strings.Contains(asked[0], "timeoutSeconds=3600") {
		t.Errorf("asked %q", asked)
	}
}
