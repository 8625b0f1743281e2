// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"millwright.dev/pkg/testing/testcluster"
)

// A new version of the operator is a new process that finds everything as the old one left it.
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
	e.awaitReady("later", 1) // by now the others have been synced too, since they were there first
	if after := e.versions("running", "waiting", "suspended"); after != before {
		t.Errorf("something was written: resourceVersions were\n%s and are\n%s", before, after)
	}
}

// versions of the ImmortalContainers and their Pods.
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
