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

// What can happen to the control plane itself: nothing of it is played. It is one of this test's own.
func TestFaultsOfControlPlane(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, clusterOptions...)
	runFaults(t, cluster, []string{
		"a full etcd",
		"a restart of the API server",
		"a compaction",
	}, map[string]fault{
		// Users' writes are refused as well. What there is to do is in hand when it begins, or comes by itself.
		"a full etcd": func(f *faults, w *work) {
			f.create(immortal("crashes", exits(0, "0.2"), backoff(1, 1)))
			w.doSome()
			begin := time.Now()
			cluster.FillEtcd(f)
			refused := func() []faultproxy.Entry {
				return f.since(begin, func(entry faultproxy.Entry) bool {
					return entry.IsWrite() && notOnLease(entry) && !entry.Faked && entry.Code == http.StatusInternalServerError
				})
			}
			f.eventually(func() string {
				if len(refused()) == 0 || time.Since(begin) < faultTime {
					return "it has not lasted long enough, or no write was refused yet"
				}
				return ""
			})
			f.mustStrike(refused(), 1)
			cluster.MakeRoom(f)
			w.do(0)
			f.kubectl("delete", "ic", "crashes", "--wait=false")
		},
		"a restart of the API server": func(f *faults, w *work) {
			w.doSome()
			cluster.Stop(f)
			// The proxy has nobody to ask, and cannot refuse connections as an API server does that is gone.
			f.operator.proxy.Refuse()
			cluster.Continue(f)
			if err := f.operator.proxy.Accept(); err != nil {
				f.Fatal(err)
			}
			w.do(0)
		},
		// The process is cut off, and when it is back all versions are gone that it has seen.
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
					return "the process has not listed its two resources anew"
				}
				return ""
			})
		},
	})
}

// isList tells whether a request asks for all objects, as a LIST or as a watch that begins with them.
func isList(entry faultproxy.Entry) bool {
	return entry.Code == http.StatusOK && (entry.Verb == "list" || entry.Query.Get("sendInitialEvents") == "true")
}
