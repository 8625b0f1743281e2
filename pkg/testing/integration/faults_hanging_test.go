// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"sync/atomic"
	"testing"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// A proxy in front of the API server accepts requests and never answers them. Connections stay open, and these requests are never answered,
// not even after the fault.
func TestFaultsHangingRequests(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	journal := &faultproxy.Journal{}
	// More objects hang than there are workers. Probes would not notice that.
	const objects, workers = 6, "2"
	o := startOperator(e, "operator", journal, append(electionFlags(patientElection), "--kube-api-timeout=1s", "--workers", workers)...)
	o.awaitWarm()
	e.create(immortal("first"))
	e.awaitReady("first", 1)

	for _, hang := range []struct {
		what string
		on   func(faultproxy.Request) bool
	}{
		{"writes of Pods", func(r faultproxy.Request) bool { return r.IsWrite() && r.Resource == "pods" }},
		{"statuses", func(r faultproxy.Request) bool { return r.Subresource == "status" }},
		{"everything but the Lease", func(r faultproxy.Request) bool { return r.Resource != "leases" }},
	} {
		var struck atomic.Int32
		stop := o.proxy.Hang(func(r faultproxy.Request) bool {
			if !hang.on(r) {
				return false
			}
			struck.Add(1)
			return true
		})
		prefix := strings.ToLower(strings.ReplaceAll(hang.what, " ", "-"))
		o.proxy.CutWatches()
		for i := range objects {
			e.create(immortal(prefix + string(rune('a'+i))))
		}
		e.eventually(func() string {
			if struck.Load() < objects {
				return "not all workers have sent a request that hangs: " + hang.what
			}
			return ""
		})
		stop()
		for i := range objects {
			e.awaitReady(prefix+string(rune('a'+i)), 1)
		}
		t.Logf("%s: %d requests were not answered", hang.what, struck.Load())
	}
	o.mustRun()
}

// An operator that starts while no request is answered becomes ready after the fault.
func TestFaultsHangingRequestsAtStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	journal := &faultproxy.Journal{}
	o := startOperator(e, "operator", journal, append(electionFlags(patientElection), "--kube-api-timeout=1s")...)
	o.awaitWarm()
	o.terminate()
	stop := o.proxy.Hang(faultproxy.All)
	before := len(journal.Entries())
	o.restart()
	e.eventually(func() string {
		if len(journal.Entries()) < before+10 {
			return "the process has not sent new requests"
		}
		return ""
	})
	stop()
	o.awaitWarm()
	e.create(immortal("first"))
	e.awaitReady("first", 1)
}
