// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

// A new process, as after an upgrade of the operator, writes nothing to objects that an old one has handled.
func TestImmortalContainerSecondManager(t *testing.T) {
	cluster := testcluster.Shared(t)
	e := newEnv(t, cluster)
	stop := runManager(t, cluster)
	e.create(immortal("running"))
	e.create(immortal("waiting", exits(0, "0"), backoff(3600, 3600)))
	e.create(immortal("suspended"))
	e.patch("suspended", `{"spec":{"suspend":true}}`)
	e.awaitReady("running", 1)
	for name, reason := range map[string]string{"waiting": "BackingOff", "suspended": "Suspended"} {
		e.eventually(func() string {
			container := e.get(name)
			if container.Status.ObservedGeneration == container.Generation && e.pod(name) == nil {
				for _, condition := range container.Status.Conditions {
					if condition.Reason == reason && container.Status.CurrentPod == "" {
						return ""
					}
				}
			}
			return describe(container)
		})
	}
	stop()
	before := e.versions("running", "waiting", "suspended")

	runManager(t, cluster)
	e.create(immortal("later"))
	e.awaitReady("later", 1) // existing objects were synced before
	if after := e.versions("running", "waiting", "suspended"); after != before {
		t.Errorf("resourceVersions after the start of the second manager: got\n%s, want\n%s", after, before)
	}
}

// versions returns the resourceVersions of the ImmortalContainers and the UIDs of their Pods.
func (e *env) versions(names ...string) (text string) {
	e.Helper()
	for _, name := range names {
		text += fmt.Sprintf("%s %s", name, e.get(name).ResourceVersion)
		if pod := e.pod(name); pod != nil {
			text += fmt.Sprintf(" Pod %s", pod.UID)
		}
		text += "\n"
	}
	return text
}
