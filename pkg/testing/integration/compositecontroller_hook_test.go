// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// testHook is a hook that answers as the test wants, and records its calls. It serves HTTP on loopback.
type testHook struct {
	*httptest.Server

	mu      sync.Mutex
	answers func(*hookCall) any
	calls   []*hookCall
}

// hookCall is one request to a hook.
type hookCall struct {
	at     time.Time
	path   string
	header http.Header
	body   []byte
	tls    bool
	// peer is the common name of the caller's certificate.
	peer string

	Controller map[string]any            `json:"controller"`
	Parent     map[string]any            `json:"parent"`
	Children   map[string]map[string]any `json:"children"`
	Related    map[string]map[string]any `json:"related"`
	Finalizing bool                      `json:"finalizing"`

	// Object and Attachments are what a DecoratorController sends instead of Parent and Children.
	Object      map[string]any            `json:"object"`
	Attachments map[string]map[string]any `json:"attachments"`
}

// subject returns the parent or the target.
func (c *hookCall) subject() map[string]any {
	if c.Object != nil {
		return c.Object
	}
	return c.Parent
}

// owned returns the children or the attachments.
func (c *hookCall) owned() map[string]map[string]any {
	if c.Object != nil {
		return c.Attachments
	}
	return c.Children
}

// raw writes a response that is not JSON, or has not the status 200.
type raw func(w http.ResponseWriter, r *http.Request)

// list is a JSON array.
type list = []any

// tree is a JSON object.
type tree = map[string]any

// newHook returns a hook that wants no children, and does not listen yet.
func newHook(t *testing.T) *testHook {
	h := &testHook{answers: func(*hookCall) any { return tree{} }}
	h.Server = httptest.NewUnstartedServer(h)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func startHook(t *testing.T) *testHook {
	h := newHook(t)
	h.Start()
	return h
}

// ServeHTTP implements http.Handler.
func (h *testHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := &hookCall{at: time.Now(), path: r.URL.Path, header: r.Header, tls: r.TLS != nil}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		call.peer = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	call.body, _ = io.ReadAll(r.Body)
	if err := json.Unmarshal(call.body, call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.calls = append(h.calls, call)
	answers := h.answers
	h.mu.Unlock()
	switch answer := answers(call).(type) {
	case raw:
		answer(w, r)
	default:
		body, err := json.Marshal(answer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	}
}

// Answers sets the function that returns the hook's responses: a value that is encoded as JSON, or a raw response.
func (h *testHook) Answers(answers func(*hookCall) any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = answers
}

// Says makes the hook always give the same response.
func (h *testHook) Says(answer any) { h.Answers(func(*hookCall) any { return answer }) }

// Wants makes the hook respond with these children, given as YAML, and no status.
func (h *testHook) Wants(t testing.TB, children ...string) {
	t.Helper()
	answer := list{}
	for _, child := range children {
		answer = append(answer, object(t, "%s", child).Object)
	}
	h.Says(tree{"children": answer})
}

// Calls returns all calls until now.
func (h *testHook) Calls() []*hookCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// CallsOf returns the calls of the path until now.
func (h *testHook) CallsOf(path string) []*hookCall {
	return slices.DeleteFunc(h.Calls(), func(call *hookCall) bool { return call.path != path })
}

// name returns the name of the parent or the target.
func (c *hookCall) name() string {
	metadata, _ := c.subject()["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// spec returns a field of the spec of the parent or the target.
func (c *hookCall) spec(field string) any {
	spec, _ := c.subject()["spec"].(map[string]any)
	return spec[field]
}

// says returns a response with the code, the body and the headers.
func says(code int, body string, headers ...string) raw {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// awaitCall waits for a call that fulfills the condition, not counting the first ones, and returns it.
func (e *engineEnv) awaitCall(after int, is func(*hookCall) bool) (found *hookCall) {
	e.Helper()
	e.eventually(func() string {
		calls := e.hook.Calls()
		for _, call := range calls[min(after, len(calls)):] {
			if is(call) {
				found = call
				return ""
			}
		}
		return fmt.Sprintf("none of the %d calls of the hook fulfills the condition", len(calls))
	})
	return found
}

// awaitCalls waits until the hook was called count times, and returns the calls.
func (e *engineEnv) awaitCalls(count int) (calls []*hookCall) {
	e.Helper()
	e.eventually(func() string {
		if calls = e.hook.Calls(); len(calls) < count {
			return fmt.Sprintf("got %d calls of the hook, want %d", len(calls), count)
		}
		return ""
	})
	return calls
}

// awaitShown waits until the hook was called with a parent or target and what it owns as they are now. Then no write of the engine until now
// leads to another call.
func (e *engineEnv) awaitShown(name string) {
	e.Helper()
	isNow := func(kind, name string, shown any) bool {
		now := e.look(kind, name)
		return now != nil && has(now.GetResourceVersion(), "metadata", "resourceVersion")(&unstructured.Unstructured{Object: shown.(tree)}) == ""
	}
	e.eventually(func() string {
		calls := e.callsFor(name)
		if len(calls) == 0 {
			return "the hook was not called for " + name
		}
		last := calls[len(calls)-1]
		if !isNow(kindOf(&unstructured.Unstructured{Object: last.subject()}), name, last.subject()) {
			return name + " has changed since the hook was called for it"
		}
		for kind, children := range last.owned() {
			for child, shown := range children {
				if !isNow(kind, child, shown) {
					return "the child " + child + " has changed since the hook was called"
				}
			}
		}
		return ""
	})
}

// callsFor returns the calls for the parent until now.
func (e *engineEnv) callsFor(parent string) []*hookCall {
	return slices.DeleteFunc(e.hook.Calls(), func(call *hookCall) bool { return call.name() != parent })
}

// calm waits until the hook has not been called for half a second, and returns how often it was called.
func (e *engineEnv) calm() (calls int) {
	e.Helper()
	since := time.Now()
	e.eventually(func() string {
		if now := len(e.hook.Calls()); now != calls {
			calls, since = now, time.Now()
		}
		if time.Since(since) < 500*time.Millisecond {
			return fmt.Sprintf("the hook is still being called, %d times until now", calls)
		}
		return ""
	})
	return calls
}
