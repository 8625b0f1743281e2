// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// A response is used as a whole or not at all: the valid child that comes first in each of these is not created, the existing child is not
// deleted, and the status is not written.
func TestCompositeInvalidResponses(t *testing.T) {
	t.Parallel()
	good := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"good"}}`
	answer := func(child string) any {
		return says(http.StatusOK, `{"status":{"bad":true},"children":[`+good+`,`+child+`]}`)
	}
	for name, test := range map[string]struct {
		answer any
		reason string
		text   string // in the message of the condition and of the event
	}{
		"null child":             {answer("null"), "HookChildInvalid", "children[1]"},
		"child without kind":     {answer(`{"apiVersion":"v1","metadata":{"name":"a"}}`), "HookChildInvalid", "children[1]"},
		"child without name":     {answer(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`), "HookChildInvalid", "children[1]"},
		"undeclared type":        {answer(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`), "HookChildUndeclared", "Secret"},
		"undeclared version":     {answer(`{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}`), "HookChildUndeclared", "ConfigMap"},
		"duplicate child":        {answer(good), "HookChildDuplicate", "good"},
		"foreign namespace":      {answer(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`), "HookChildForeignNamespace", "default"},
		"child not selected":     {answer(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"controller-uid":"other"}}}`), "HookChildNotSelected", "selector"},
		"children are an object": {says(http.StatusOK, `{"children":{}}`), "HookResponseInvalid", "children"},
		"not JSON":               {says(http.StatusOK, "oops"), "HookResponseInvalidJSON", "invalid character at byte 0"},
		"incomplete JSON":        {says(http.StatusOK, `{"children":[`+good), "HookResponseInvalidJSON", "JSON"},
		"empty body":             {says(http.StatusOK, ""), "HookResponseInvalidJSON", "JSON"},
		"201":                    {says(http.StatusCreated, `{"children":[`+good+`]}`), "HookFailed", "unsupported status code: 201"},
		"204":                    {says(http.StatusNoContent, ""), "HookFailed", "unsupported status code: 204"},
		"500 with reason":        {says(http.StatusInternalServerError, "the database is down"), "HookFailed", "unsupported status code: 500 body: the database is down"},
		"hook panics":            {raw(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "HookUnreachable", "EOF"},
		"body cut off":           {says(http.StatusOK, `{}`, "Content-Length", "100"), "HookUnreachable", "body"},
		"more than 16 MiB":       {raw(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 16<<20+1)) }), "HookResponseTooLarge", "16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}")
			e.serves(configMaps)
			parent := e.parent("web")
			before := e.awaitChild("ConfigMap", "before")
			e.awaitChild(widget, "web", has(1, "status", "observedGeneration"))

			e.hook.Says(test.answer)
			e.change(widget, "web", "{spec: {new: true}}")
			if message := e.awaitReason(test.reason); !strings.Contains(message, test.text) {
				t.Errorf("message of the condition: got %q, want %q in it", message, test.text)
			}
			event := e.awaitEventOn(parent, "SyncError", test.text)
			if event.Type != "Warning" || !strings.HasPrefix(event.Message, "Sync error: ") || event.Source.Component != "metacontroller" {
				t.Errorf("got event %+v, want a Warning of metacontroller", event)
			}
			if now := e.look("ConfigMap", "before"); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("existing child: got %v, want it unchanged", now)
			}
			if o := e.look("ConfigMap", "good"); o != nil {
				t.Errorf("a child of an invalid response was created: %v", o.Object)
			}
			e.awaitChild(widget, "web", has(1, "status", "observedGeneration"), has(nil, "status", "bad"))

			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: after}}")
			e.change(widget, "web", "{spec: {new: corrected}}")
			e.awaitChild("ConfigMap", "after")
			e.awaitGone("ConfigMap", "before")
			e.awaitReason(v1alpha1.ReasonServing)
		})
	}
}

func TestCompositeNoChildrenDeletesAll(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"children":null}`, `{}`, `{"children":[]}`} {
		t.Run(answer, func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
			e.serves(configMaps)
			parent := e.parent("web")
			e.awaitChild("ConfigMap", "a")
			e.awaitChild("ConfigMap", "b")
			e.hook.Says(says(http.StatusOK, answer))
			e.change(widget, "web", "{spec: {new: true}}")
			e.awaitGone("ConfigMap", "a")
			e.awaitGone("ConfigMap", "b")
			e.awaitEventOn(parent, "ChildrenDeleted", "Deleted 2 ConfigMap: ")
		})
	}
}

func TestCompositeOneInvalidResponse(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.name() == "bad" {
			return says(http.StatusOK, `{"children":[null]}`)
		}
		return oneConfigMap(call)
	})
	e.serves(configMaps)
	created := func(name string) {
		e.parent(name, "{spec: {who: you}}")
		e.awaitChild("ConfigMap", name)
	}
	created("a")
	created("b")
	bad := e.parent("bad")
	e.awaitEventOn(bad, "SyncError", "children[0]")
	if message := e.awaitReason(v1alpha1.ReasonParentsFailing); !strings.HasPrefix(message, "1 of 3 parents ") || !strings.Contains(message, "/bad: HookChildInvalid: ") {
		t.Errorf("message of the condition: got %q", message)
	}
	created("c")
	e.remove(widget, "bad")
	e.awaitReason(v1alpha1.ReasonServing)
}

func TestCompositeRefusedChild(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Says(tree{"status": tree{"seen": true}, "children": list{
		object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name}}").Object,
		object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}").Object,
	}})
	e.serves(configMaps)
	parent := e.parent("web")
	e.awaitChild("ConfigMap", "good")
	e.awaitChild(widget, "web", has(true, "status", "seen"))
	e.awaitEventOn(parent, "SyncError", "Not_A_Name")
}

func TestCompositeParentWithoutSelector(t *testing.T) {
	e := inSharedEngine(t)
	e.serves(strings.Replace(configMaps, "generateSelector: true", "", 1))
	for name, spec := range map[string]string{
		"none": "{}", "empty": "{spec: {selector: {}}}", "invalid": "{spec: {selector: {matchExpressions: [{key: a, operator: Like}]}}}",
	} {
		parent := e.parent(name, spec)
		e.awaitEventOn(parent, "SyncError", "spec.selector")
	}
	if calls := e.hook.Calls(); len(calls) > 0 {
		t.Errorf("got %d calls of the hook, want none", len(calls))
	}
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: a}}}")
	e.change(widget, "none", "{spec: {selector: {matchLabels: {app: a}}}}")
	e.awaitChild("ConfigMap", "a")
}

// The engine backs off from a failing hook, and records few events.
func TestCompositeHookBackoff(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Says(says(http.StatusInternalServerError, "no"))
	e.serves(configMaps)
	parent := e.parent("web")
	e.awaitEventOn(parent, "SyncError", "500")
	e.awaitCalls(5)
	time.Sleep(3 * time.Second)
	if calls := len(e.hook.Calls()); calls > 15 { // the delay is 5 ms at first, and doubles each time
		t.Errorf("got %d calls in 3 s, want 15 at most", calls)
	}
	events, err := e.kube.CoreV1().Events(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) != 1 {
		t.Errorf("got %d events, want 1", len(events.Items))
	}
}

func TestCompositeHookOutage(t *testing.T) {
	e := inSharedEngine(t)
	var gone = raw(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	e.hook.Says(gone)
	e.serves(configMaps)
	for _, name := range []string{"a", "b", "c", "d"} {
		e.parent(name)
	}
	e.awaitReason("HookUnreachable")
	e.awaitCalls(5) // after that many the circuit breaker is open
	version := e.controllerVersion()
	before, absent := len(e.hook.Calls()), time.Now()
	time.Sleep(time.Second)
	if calls, lasted := len(e.hook.Calls())-before, time.Since(absent); float64(calls) > 5*lasted.Seconds() {
		t.Errorf("got %d calls in %s of the outage, want 5 a second at most", calls, lasted)
	}
	if now := e.controllerVersion(); now != version {
		t.Errorf("the status of the CompositeController was written again in the outage: version %s after %s", now, version)
	}
	e.hook.Answers(oneConfigMap)
	for _, name := range []string{"a", "b", "c", "d"} {
		e.awaitChild("ConfigMap", name, func(*unstructured.Unstructured) string { return "" })
	}
	e.awaitReason(v1alpha1.ReasonServing)
}
