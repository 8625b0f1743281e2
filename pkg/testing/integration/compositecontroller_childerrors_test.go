// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// A hook may return a child as the request shows it, with the fields that the API server has set.
func TestCompositeSystemFieldsIgnored(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Wants(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: again, uid: 1-2, resourceVersion: "7", generation: 3, selfLink: /a,
		creationTimestamp: "2026-01-01T00:00:00Z", deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 30,
		managedFields: [{manager: m, operation: Update}]}, data: {a: b}}`)
	e.serves(configMaps)
	e.parent("web")
	child := e.awaitChild("ConfigMap", "again", has("b", "data", "a"))
	if child.GetUID() == "1-2" || child.GetDeletionTimestamp() != nil {
		t.Errorf("got child %v, want the system fields of the API server", child.Object)
	}
	e.awaitReason(v1alpha1.ReasonServing)
}

func TestCompositeInvalidChild(t *testing.T) {
	t.Parallel()
	journal := &faultproxy.Journal{}
	e := newEngineEnv(t)
	e.run(journal)
	invalid := tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "Not_A_Name"}}
	noChild := tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "no-child"}, "data": tree{"a": tree{}}}
	e.hook.Answers(func(call *hookCall) any {
		good := tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "good-" + call.name()}}
		if call.name() == "other" {
			return tree{"children": list{good}}
		}
		return tree{"children": list{invalid, noChild, good}, "status": tree{"seen": true}}
	})
	e.serves(configMaps)
	parent := e.parent("web")
	e.awaitChild("ConfigMap", "good-web")
	e.awaitChild(widget, "web", has(true, "status", "seen"))
	if message := e.awaitReason("HookChildInvalid"); !strings.Contains(message, "Not_A_Name") || !strings.Contains(message, "no-child") {
		t.Errorf("message of the condition: got %q, want both children in it", message)
	}
	e.awaitEventOn(parent, "SyncError", "Not_A_Name")
	e.parent("other")
	e.awaitChild("ConfigMap", "good-other")
	if message := e.awaitReason(v1alpha1.ReasonParentsFailing); !strings.HasPrefix(message, "1 of 2 parents ") || !strings.Contains(message, "Not_A_Name") {
		t.Errorf("message of the condition: got %q", message)
	}
	begin := time.Now()
	before := len(e.callsFor("web"))
	e.stays(3*time.Second, func() string { return "" })
	// The delay between retries is 5 ms at first, and doubles each time.
	if calls, limit := len(e.callsFor("web"))-before, 12*(1+int(time.Since(begin)/(3*time.Second))); calls > limit {
		t.Errorf("got %d calls of the hook, want %d at most", calls, limit)
	}
	e.hook.Says(tree{"children": list{}})
	e.change(widget, "web", "{spec: {new: corrected}}")
	e.awaitReason(v1alpha1.ReasonServing)
}

// The child is created soon after the foreign object is gone, not only by the sync after 30 seconds. The test measures the time with
// another parent, which the same engine syncs every 3 seconds, and also when its status has changed.
func TestCompositeChildAfterForeignObject(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.run(&faultproxy.Journal{})
	foreign := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: taken, labels: {of: other}}}")
	e.hook.Answers(func(call *hookCall) any {
		if call.name() == "clock" {
			return tree{"resyncAfterSeconds": 3}
		}
		return tree{"children": list{tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "taken"}}}}
	})
	e.serves(configMaps)
	e.awaitReason(v1alpha1.ReasonServing)
	parent := e.parent("web")
	e.awaitEventOn(parent, "ErrResourceExists", "taken")
	e.parent("clock")
	e.calm()
	before := len(e.callsFor("clock"))
	e.remove("ConfigMap", "taken")
	e.awaitChild("ConfigMap", "taken", has(nil, "metadata", "labels", "of"))
	if ticks := len(e.callsFor("clock")) - before; ticks > 5 {
		t.Errorf("the child was created after %d times 3 seconds, want 5 at most", ticks)
	}
	if child := e.look("ConfigMap", "taken"); child.GetUID() == foreign.GetUID() {
		t.Errorf("got the foreign object %v, want a new child", child)
	}
}

// The error of a reset connection names another port each time. The events do not show the port, so they are one event with a count.
func TestCompositeConnectionEventsFolded(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Says(raw(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, ok := connection.(*net.TCPConn); ok {
			err = tcp.SetLinger(0) // a reset
		}
		if err = errors.Join(err, connection.Close()); err != nil {
			t.Error(err)
		}
	}))
	e.serves(configMaps)
	parent := e.parent("web")
	event := e.awaitEventOn(parent, "SyncError", "connection reset")
	message := e.awaitReason("HookUnreachable")
	e.eventually(func() string {
		if e.countEvents(parent, "SyncError") < 3 {
			return "got fewer than 3 events SyncError"
		}
		return ""
	})
	if strings.Contains(event.Message, "->") || strings.Contains(message, "->") {
		t.Errorf("got a port in the messages:\n%s\n%s", event.Message, message)
	}
	resets := 0
	for _, event := range e.eventsOn(parent) {
		if strings.Contains(event.Message, "connection reset") {
			resets++
		}
	}
	if resets > 1 {
		t.Errorf("got %d events, want one with a count", resets)
	}
}
