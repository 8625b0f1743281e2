// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/testing/testcluster"
)

// Informers use watch lists. An API server without them, before Kubernetes 1.32, refuses these, and the informers list instead. For that
// the operators need the right to list.
func TestPrivilegesListWithoutWatchList(t *testing.T) {
	for d, wanted := range map[deployment]sets.Set[string]{
		actions: sets.New("actionsets", "blueprints", "leases"),
		core:    sets.New("deployments", "helloapps", "immortalcontainers", "leases", "machines", "pods", "services", "switches"),
		engine:  sets.New("compositecontrollers", "customresourcedefinitions", "leases"),
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, testcluster.Shared(t))
			p := startPairOf(d, e, defaultElection)
			p.standby.terminate()
			defer refuseWatchLists(p.standby.proxy)()
			begin := time.Now()
			p.standby.restart()
			p.standby.awaitWarm()

			listed := sets.New[string]()
			e.eventually(func() string {
				for _, entry := range p.journal.Entries() {
					if entry.Proxy == p.standby.name() && entry.Received.After(begin) && entry.Verb == "list" && entry.Code == http.StatusOK {
						listed.Insert(entry.Resource)
					}
				}
				if missing := wanted.Difference(listed); len(missing) > 0 {
					return "resources that were not listed: " + join(missing)
				}
				return ""
			})
			p.leader.terminate()
			if d == core {
				e.create(immortal("web"))
				e.awaitReady("web", 1)
			}
			p.standby.terminate()
		})
	}
}

func join(names sets.Set[string]) (line string) {
	for _, name := range sets.List(names) {
		line += " " + name
	}
	return line
}
