// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// A tenant may be the author of a hook. The hook must not redirect the engine to a server that only the engine can reach.
func TestCompositeHookRedirect(t *testing.T) {
	t.Parallel()
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			e := inSharedEngine(t)
			internal := startHook(t)
			internal.Says(tree{"children": list{}, "status": tree{"internal": "secret"}})
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}")
			e.serves(configMaps)
			parent := e.parent("web")
			before := e.awaitChild("ConfigMap", "before")

			e.hook.Says(says(code, "the body", "Location", internal.URL+"/admin?token=abc"))
			e.change(widget, "web", "{spec: {new: true}}")
			want := "redirected by status code " + strconv.Itoa(code) + " to " + internal.URL + "/admin, which is not followed"
			for _, text := range []string{e.awaitReason("HookFailed"), e.awaitEventOn(parent, "SyncError", "redirected").Message} {
				if !strings.Contains(text, want) || strings.Contains(text, "token") || strings.Contains(text, "the body") {
					t.Errorf("got text %q, want %q without the query and the body", text, want)
				}
			}
			if now := e.look("ConfigMap", "before"); now == nil || now.GetUID() != before.GetUID() {
				t.Errorf("existing child: got %v, want it unchanged", now)
			}
			e.awaitChild(widget, "web", has(nil, "status", "internal"))
			if calls := internal.Calls(); len(calls) > 0 {
				t.Errorf("got %d calls of the other server, want none", len(calls))
			}

			e.hook.Says(raw(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/moved" {
					http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
					return
				}
				_, _ = w.Write([]byte(`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"after"}}]}`))
			}))
			e.change(widget, "web", "{spec: {new: corrected}}")
			e.awaitChild("ConfigMap", "after")
			e.awaitReason(v1alpha1.ReasonServing)
		})
	}
}

func TestCompositeFailedResponseText(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Says(says(http.StatusInternalServerError, "the database is down "+strings.Repeat("x", 1000)+"end"))
	e.serves(configMaps)
	parent := e.parent("web")
	for _, text := range []string{e.awaitReason("HookFailed"), e.awaitEventOn(parent, "SyncError", "500").Message} {
		if !strings.Contains(text, "unsupported status code: 500 body: the database is down x") || strings.Contains(text, "end") || len(text) > 300 {
			t.Errorf("got text %q, want the code and the first part of the body", text)
		}
	}
	e.hook.Says(says(http.StatusInternalServerError, "<html>secret</html>", "Content-Type", "text/html"))
	e.change(widget, "web", "{spec: {new: true}}")
	e.eventually(func() string {
		if message := e.awaitReason("HookFailed"); message != "unsupported status code: 500" {
			return "got message " + message + ", want the code only"
		}
		return ""
	})
}
