// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestDecoratorHookRequestFormat(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			e := decorating(t)
			e.hook.Answers(oneAttachment)
			dc := e.decorates(`
resources: [{apiVersion: test.example.com/v1, resource: widgets}]
attachments: [{apiVersion: v1, resource: configmaps}, {apiVersion: apps/v1, resource: deployments}]
hooks: {sync: {version: ` + version + `, webhook: {url: HOOK/some/path}}}
`)
			target := e.parent("web", "{spec: {who: me}}")
			call := e.awaitCall(0, func(call *hookCall) bool { return len(call.Attachments["ConfigMap.v1"]) == 1 })
			if call.path != "/some/path" || call.header.Get("Content-Type") != "application/json" {
				t.Errorf("got a request for %s with the headers %v", call.path, call.header)
			}
			if diff := cmp.Diff([]string{"controller", "object", "attachments", "related", "finalizing"}, members(t, call.body)); diff != "" {
				t.Errorf("keys of the request (-want +got):\n%s", diff)
			}
			if call.Related == nil || len(call.Related) > 0 || call.Finalizing {
				t.Errorf("got related %v and finalizing %t, want an empty object and false", call.Related, call.Finalizing)
			}
			want := []string{"ConfigMap.v1", "Deployment.apps/v1"}
			if got := slices.Sorted(maps.Keys(call.Attachments)); !slices.Equal(got, want) || call.Attachments["Deployment.apps/v1"] == nil {
				t.Errorf("types of attachments: got %v, want %v", got, want)
			}
			key := map[string]string{"v1": "web", "v2": e.namespace + "/web"}[version]
			attachment, _ := call.Attachments["ConfigMap.v1"][key].(tree)
			if attachment == nil {
				t.Fatalf("keys of the attachments: got %v, want %s", slices.Collect(maps.Keys(call.Attachments["ConfigMap.v1"])), key)
			}
			if annotations := attachment["metadata"].(tree)["annotations"].(tree); annotations[decoratedBy] != e.name || attachment["kind"] != "ConfigMap" {
				t.Errorf("got attachment %v", attachment)
			}
			if bytes.Contains(call.body, []byte("managedFields")) {
				t.Error("the request has managedFields")
			}
			if call.Controller["kind"] != "DecoratorController" || call.Controller["apiVersion"] != "metacontroller.k8s.io/v1alpha1" ||
				!cmp.Equal(call.Controller["status"], tree{}) || call.Controller["metadata"].(tree)["uid"] != string(dc.GetUID()) || call.Controller["spec"] == nil {
				t.Errorf("got controller %v", call.Controller)
			}
			if call.Object["metadata"].(tree)["uid"] != string(target.GetUID()) || call.Object["kind"] != "Widget" || call.spec("who") != "me" {
				t.Errorf("got object %v", call.Object)
			}
		})
	}
}

// An answer is used as a whole or not at all: the valid attachment that comes first in each of these is not created, the existing one is
// not deleted, and the target is not written.
func TestDecoratorInvalidResponses(t *testing.T) {
	t.Parallel()
	good := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"good"}}`
	with := func(more string) any {
		return says(http.StatusOK, `{"status":{"bad":true},"labels":{"bad":"true"},"attachments":[`+good+`]`+more+`}`)
	}
	also := func(attachment string) any {
		return says(http.StatusOK, `{"status":{"bad":true},"labels":{"bad":"true"},"attachments":[`+good+`,`+attachment+`]}`)
	}
	for name, test := range map[string]struct {
		answer any
		reason string
		text   string // in the message of the condition and of the event
	}{
		"null attachment":           {also("null"), "HookChildInvalid", "attachments[1]"},
		"undeclared type":           {also(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`), "HookChildUndeclared", "Secret"},
		"duplicate attachment":      {also(good), "HookChildDuplicate", "good"},
		"foreign namespace":         {also(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`), "HookChildForeignNamespace", "default"},
		"attachments are an object": {says(http.StatusOK, `{"labels":{"bad":"true"},"attachments":{}}`), "HookResponseInvalid", "attachments"},
		"label is a number":         {with(`,"annotations":{"a":1}`), "HookResponseInvalid", "annotations"},
		"status is a text":          {says(http.StatusOK, `{"labels":{"bad":"true"},"status":"bad"}`), "HookResponseInvalid", "status"},
		"not JSON":                  {says(http.StatusOK, "oops"), "HookResponseInvalidJSON", "invalid character"},
		"204":                       {says(http.StatusNoContent, ""), "HookFailed", "unsupported status code: 204"},
		"500 with reason":           {says(http.StatusInternalServerError, "the database is down"), "HookFailed", "unsupported status code: 500 body: the database is down"},
	} {
		t.Run(name, func(t *testing.T) {
			e := decorating(t)
			e.hook.Says(tree{"attachments": list{configMap("before", nil)}})
			e.decorates(widgets)
			target := e.parent("web")
			before := e.awaitChild("ConfigMap", "before")
			e.hook.Says(test.answer)
			e.change(widget, "web", "{spec: {new: true}}")
			if message := e.awaitDecorator(test.reason); !strings.Contains(message, test.text) {
				t.Errorf("message of the condition: got %q, want %q in it", message, test.text)
			}
			if event := e.awaitEventOn(target, "SyncError", test.text); event.Type != "Warning" || !strings.HasPrefix(event.Message, "Sync error: ") {
				t.Errorf("got event %+v, want a Warning", event)
			}
			if now := e.look("ConfigMap", "before"); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("existing attachment: got %v, want it unchanged", now)
			}
			if o := e.look("ConfigMap", "good"); o != nil {
				t.Errorf("an attachment of an invalid response was created: %v", o.Object)
			}
			e.awaitChild(widget, "web", has(nil, "metadata", "labels", "bad"), has(nil, "status", "bad"))

			e.hook.Says(tree{"attachments": list{configMap("after", nil)}})
			e.change(widget, "web", "{spec: {new: corrected}}")
			e.awaitChild("ConfigMap", "after")
			e.awaitGone("ConfigMap", "before")
			e.awaitDecorator(v1alpha1.ReasonServing)
		})
	}
}

// A label that the API server does not accept is reported with its message. It keeps no other target waiting.
func TestDecoratorRefusedLabel(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		return tree{"labels": tree{"text": map[bool]string{true: "no label", false: "a-label"}[call.name() == "bad"]}}
	})
	e.decorates(widgets)
	bad := e.parent("bad")
	e.awaitEventOn(bad, "SyncError", "no label")
	e.parent("good")
	e.awaitChild(widget, "good", has("a-label", "metadata", "labels", "text"))
	if message := e.awaitDecorator(v1alpha1.ReasonParentsFailing); !strings.HasPrefix(message, "1 of 2 targets ") || !strings.Contains(message, "/bad: HookResponseInvalid: ") {
		t.Errorf("message of the condition: got %q", message)
	}
	e.remove(widget, "bad")
	e.awaitDecorator(v1alpha1.ReasonServing)
}

func TestDecoratorStrictUnknownField(t *testing.T) {
	t.Parallel()
	for version, reason := range map[string]string{"v1": v1alpha1.ReasonServing, "v2": "HookResponseUnknownField"} {
		t.Run(version, func(t *testing.T) {
			e := decorating(t)
			e.hook.Says(says(http.StatusOK, `{"labels":{"decorated":"yes"},"children":[]}`))
			e.decorates(strings.Replace(widgets, "sync: {", "sync: {version: "+version+", ", 1))
			e.parent("web")
			if reason == v1alpha1.ReasonServing {
				e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
			}
			if message := e.awaitDecorator(reason); reason != v1alpha1.ReasonServing && !strings.Contains(message, `unknown field "children"`) {
				t.Errorf("message of the condition: got %q, want the unknown field in it", message)
			}
		})
	}
}

func TestDecoratorRetryAfter(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		if len(e.hook.Calls()) == 1 {
			return says(http.StatusTooManyRequests, "", "Retry-After", "2")
		}
		return oneAttachment(call)
	})
	e.decorates(widgets)
	e.awaitDecorator(v1alpha1.ReasonServing)
	target := e.parent("web")
	e.awaitChild("ConfigMap", "web")
	calls := e.hook.Calls()
	if wait := calls[1].at.Sub(calls[0].at); wait < 1900*time.Millisecond {
		t.Errorf("the hook was called again after %s, want 2 s", wait)
	}
	if count := e.countEvents(target, "SyncError"); count > 0 {
		t.Errorf("got %d events SyncError, want none", count)
	}
}

// The ETag of a target is not that of another one with the same kind and name in another group.
func TestDecoratorETagOfEachTarget(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		if call.header.Get("If-None-Match") != "" {
			return says(http.StatusNotModified, "")
		}
		return says(http.StatusOK, `{"labels":{"of":"`+call.Object["kind"].(string)+`"}}`, "ETag", `"one"`)
	})
	e.decorates(strings.NewReplacer("resources: [", "resources: [{apiVersion: v1, resource: services}, ",
		"url: HOOK/sync", "url: HOOK/sync, etag: {enabled: true, cacheTimeoutSeconds: 60}").Replace(widgets))
	e.parent("web")
	e.put("{apiVersion: v1, kind: Service, metadata: {name: web, labels: {%s: %s}}, spec: {ports: [{port: 80}]}}", testLabel, e.namespace)
	e.awaitChild(widget, "web", has("Widget", "metadata", "labels", "of"))
	e.awaitChild("Service", "web", has("Service", "metadata", "labels", "of"))
	e.change(widget, "web", "{metadata: {labels: {of: none}}}")
	e.awaitChild(widget, "web", has("Widget", "metadata", "labels", "of"))
}
