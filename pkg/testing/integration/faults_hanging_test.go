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

// A proxy before the API server accepts requests and never answers them. Connections stay well, and those requests stay without an answer
// after it has been mended.
func TestFaultsHangingRequests(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	journal := &faultproxy.Journal{}
	// More objects than workers hang. Probes would not notice it.
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
				return "not all workers have met a request that hangs: " + hang.what
			}
			return ""
		})
		stop()
		for i := range objects {
			e.awaitReady(prefix+string(rune('a'+i)), 1)
		}
		t.Logf("%s: %d requests were never answered", hang.what, struck.Load())
	}
	o.mustRun()
}

// An operator that starts while nothing is answered is ready once it is.
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
			return "the process has not asked for anything again"
		}
		return ""
	})
	stop()
	o.awaitWarm()
	e.create(immortal("first"))
	e.awaitReady("first", 1)
}
