// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	"millwright.dev/pkg/testing/faultproxy"
)

// etcd has a limit of 1.5 MiB, its client one of 2 MiB, and the API server one of 3 MiB. Each returns another error.
func TestCompositeStatusTooLarge(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"for etcd": 1600 << 10, "for its client": 2500 << 10, "for the API server": 3500 << 10} {
		t.Run(name, func(t *testing.T) {
			e := newEngineEnv(t)
			e.hook.Answers(func(call *hookCall) any {
				answer := oneConfigMap(call).(tree)
				if call.name() == "large" && call.spec("who") == "me" {
					answer["status"].(tree)["text"] = strings.Repeat("x", size)
				}
				return answer
			})
			var journal faultproxy.Journal
			e.run(&journal)
			e.serves(configMaps)
			parent := e.parent("large", "{spec: {who: me}}")
			e.awaitChild("ConfigMap", "large")
			e.awaitEventOn(parent, "SyncError", "arge")
			if message := e.awaitReason("TooLarge"); !strings.Contains(message, "large") {
				t.Errorf("message of the condition: got %s, want the object in it", message)
			}
			e.parent("small", "{spec: {who: me}}")
			e.awaitChild(widget, "small", has(1, "status", "seen"))
			calls := e.calm()
			countWrites := func() int {
				return len(journal.Select(func(entry faultproxy.Entry) bool { return entry.Name == "large" && entry.Subresource == "status" }))
			}
			before := countWrites()
			// Each change of a child leads to a sync, but not to a write of the status.
			for i := range 3 {
				e.change("ConfigMap", "large", fmt.Sprintf("{metadata: {annotations: {change: '%d'}}}", i))
				e.awaitCalls(calls + 1)
				calls = e.calm()
			}
			if after := countWrites(); before > 3 || after > 3 {
				t.Errorf("got %d writes of the status, then %d, want 3 at most", before, after)
			}
			e.change(widget, "large", "{spec: {who: you}}")
			e.awaitChild(widget, "large", has(1, "status", "seen"))
			e.awaitReason("Serving")
		})
	}
}

func TestCompositeChildTooLarge(t *testing.T) {
	e := inSharedEngine(t)
	child := func(name, text string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {text: %s}}", name, text)
	}
	e.hook.Wants(t, child("a", "x"))
	e.serves(with("Recreate", "v1", "configmaps"))
	parent := e.parent("web")
	before := e.awaitChild("ConfigMap", "a")
	e.hook.Wants(t, child("a", strings.Repeat("x", 300<<10)), child("b", "x"))
	e.change(widget, "web", "{spec: {new: true}}")
	e.awaitChild("ConfigMap", "b")
	e.awaitEventOn(parent, "SyncError", "262144")
	if message := e.awaitReason("TooLarge"); !strings.Contains(message, "ConfigMap "+e.namespace+"/a") {
		t.Errorf("message of the condition: got %s, want the child in it", message)
	}
	e.calm()
	if now := e.look("ConfigMap", "a"); now == nil || now.GetUID() != before.GetUID() {
		t.Error("the child was deleted, but cannot be created again")
	}
	e.hook.Wants(t, child("a", "other"), child("b", "x"))
	e.change(widget, "web", "{spec: {new: false}}")
	e.awaitChild("ConfigMap", "a", has("other", "data", "text"))
	e.awaitReason("Serving")
}
