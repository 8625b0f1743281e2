// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"
	"time"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// Real faults of the control plane. The test has a control plane of its own.
func TestFaultsOfControlPlane(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, clusterOptions...)
	runFaults(t, cluster, []string{
		"a full etcd",
		"a restart of the API server",
		"a compaction",
	}, map[string]fault{
		// Writes of users are refused too, so the work has to begin before the fault, or come from a container that crashes.
		"a full etcd": func(f *faults, w *work) {
			f.create(immortal("crashes", exits(0, "0.2"), backoff(1, 1)))
			w.doSome()
			begin := time.Now()
			cluster.FillEtcd(f)
			f.awaitStruck(begin, func(entry faultproxy.Entry) bool {
				return entry.IsWrite() && notOnLease(entry) && !entry.Faked && entry.Code == http.StatusInternalServerError
			}, 1)
			time.Sleep(faultTime - time.Since(begin)) // as long as other faults
			cluster.MakeRoom(f)
			w.do(0)
			f.kubectl("delete", "ic", "crashes", "--wait=false")
		},
		"a restart of the API server": func(f *faults, w *work) {
			w.doSome()
			cluster.Stop(f)
			// While the API server is down, connections have to be refused. The proxy does not do so by itself.
			f.operator.proxy.Refuse()
			cluster.Continue(f)
			if err := f.operator.proxy.Accept(); err != nil {
				f.Fatal(err)
			}
			w.do(0)
		},
		// The process has no connection until all resourceVersions that it knows are compacted.
		"a compaction": func(f *faults, w *work) {
			begin := time.Now()
			f.operator.proxy.Refuse()
			w.do(0)
			cluster.Restart(f)
			cluster.Compact(f)
			if err := f.operator.proxy.Accept(); err != nil {
				f.Fatal(err)
			}
			f.eventually(func() string {
				if len(f.since(begin, isList)) < 2 {
					return "the process has not listed its two resources again"
				}
				return ""
			})
		},
	})
}

// isList reports whether a request is a LIST or a watch list.
func isList(entry faultproxy.Entry) bool {
	return entry.Code == http.StatusOK && (entry.Verb == "list" || entry.Query.Get("sendInitialEvents") == "true")
}
