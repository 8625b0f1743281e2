// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// etagHook is a hook whose answer has the tag "1" until it is changed, and that remembers what it was offered.
type etagHook struct {
	tag, offered string
	unchanged    int // the code for an answer that it would give again
}

func (h *etagHook) RoundTrip(r *http.Request) (*http.Response, error) {
	h.offered = r.Header.Get("If-None-Match")
	code, body := http.StatusOK, fmt.Sprintf(`{"status":{"tag":%q}}`, h.tag)
	if h.offered == h.tag {
		code, body = h.unchanged, ""
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Etag": {h.tag}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func newETagHook(t *testing.T, server *etagHook, config ETag) *Hook {
	return newTestHook(t, Config{URL: "http://hook/", ETag: &config, Instrument: answering(server.RoundTrip)})
}

func TestETagReuse(t *testing.T) {
	for _, code := range []int{http.StatusNotModified, http.StatusPreconditionFailed} {
		server := &etagHook{tag: "1", unchanged: code}
		hook := newETagHook(t, server, ETag{})
		ask := func(key string) *Answer {
			t.Helper()
			answer, err := hook.Call(t.Context(), key, emptyRequest())
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		first, second := ask("a"), ask("a")
		if !second.NotModified || string(second.Body) != string(first.Body) || second.Sum != first.Sum || first.NotModified {
			t.Errorf("%d: answers %+v and %+v", code, first, second)
		}
		if ask("b"); server.offered != "" {
			t.Errorf("%d: the tag of one parent was offered for another", code)
		}
		server.tag = "2"
		if third := ask("a"); third.NotModified || string(third.Body) != `{"status":{"tag":"2"}}` || server.offered != "1" {
			t.Errorf("%d: after a change %+v", code, third)
		}
		if fourth := ask("a"); !fourth.NotModified || string(fourth.Body) != `{"status":{"tag":"2"}}` {
			t.Errorf("%d: after a change, again %+v", code, fourth)
		}
		hook.Forget("a")
		if ask("a"); server.offered != "" {
			t.Errorf("%d: what was forgotten is offered", code)
		}
	}
}

func TestWithoutETag(t *testing.T) {
	server := &etagHook{tag: "1"}
	hook := newTestHook(t, Config{URL: "http://hook/", Instrument: answering(server.RoundTrip)})
	for range 2 {
		if err := call(t, hook); err != nil || server.offered != "" {
			t.Errorf("offered %q, error %v", server.offered, err)
		}
	}
}

func TestAnswerCacheExpiry(t *testing.T) {
	for _, test := range []struct {
		name    string
		config  ETag
		offered time.Duration // until when it is offered
		left    int           // of a hundred that were never asked for again, an hour later
	}{
		{"both", ETag{CacheTimeout: 10 * time.Second, CacheCleanup: time.Minute}, 9 * time.Second, 1},
		{"timeout alone", ETag{CacheTimeout: 10 * time.Second}, 9 * time.Second, 1},
		{"cleanup alone", ETag{CacheCleanup: time.Second}, time.Hour, 101},
		{"neither", ETag{}, time.Hour, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &etagHook{tag: "1", unchanged: http.StatusNotModified}
				hook := newETagHook(t, server, test.config)
				for i := range 100 {
					_, _ = hook.Call(t.Context(), fmt.Sprint(i), emptyRequest())
				}
				time.Sleep(test.offered)
				if _ = call(t, hook); server.offered != "" {
					t.Error("offered for a new parent")
				}
				if _, _ = hook.Call(t.Context(), "0", emptyRequest()); server.offered != "1" {
					t.Errorf("not offered after %s", test.offered)
				}
				time.Sleep(time.Hour)
				_, _ = hook.Call(t.Context(), "last", emptyRequest())
				if test.config.CacheTimeout == 0 {
					test.left++ // the one that has "uid" as its key
				}
				if left := len(hook.etags.entries); left != test.left {
					t.Errorf("%d answers are kept, want %d", left, test.left)
				}
			})
		})
	}
}

func TestAnswerCacheIsBounded(t *testing.T) {
	size := (&etagEntry{key: "0", etag: "tag", answer: Answer{Body: make([]byte, 100)}}).size()
	var room atomic.Int64
	room.Store(10 * size)
	cache, other := newETagCache(ETag{}, &room), newETagCache(ETag{}, &room)
	for i := range 10 {
		cache.put(fmt.Sprint(i), "tag", Answer{Body: make([]byte, 100)})
	}
	cache.get("0")
	cache.put("10", "tag", Answer{Body: make([]byte, 150)})
	for i, want := range []bool{true, false, false, true} {
		if got := cache.get(fmt.Sprint(i)) != nil; got != want {
			t.Errorf("answer %d is kept: %t, want %t", i, got, want)
		}
	}
	other.put("0", "tag", Answer{Body: make([]byte, 150)})
	if other.get("0") != nil || cache.get("10") == nil {
		t.Error("an answer of one hook puts out those of another")
	}
	cache.put("huge", "tag", Answer{Body: make([]byte, 10*size)})
	if len(cache.entries) != 0 || room.Load() != 10*size || cache.used.Len() != 0 {
		t.Errorf("%d answers are kept, and room for %d bytes left, after one that is too large", len(cache.entries), room.Load())
	}
	other.put("0", "tag", Answer{Body: make([]byte, 150)})
	if other.close(); room.Load() != 10*size {
		t.Errorf("a hook that has gone keeps %d bytes", 10*size-room.Load())
	}
}
