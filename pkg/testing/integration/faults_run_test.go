// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// patientElection lets a leader survive a fault in which it cannot renew its Lease. The tests of leader election test the other case.
var patientElection = manager.LeaderElection{LeaseDuration: 2 * time.Minute, RenewDeadline: 100 * time.Second, RetryPeriod: time.Second}

// faults is an operator process that goes through several faults, one after the other.
type faults struct {
	*env
	journal  *faultproxy.Journal
	operator *operator
	before   usage
	pid      int
}

// fault causes a fault while users work. It has to check that the fault has affected requests.
type fault func(f *faults, w *work)

// runFaults starts a process and runs the faults. Before them it does the same work without a fault, to measure the usual resource usage.
func runFaults(t *testing.T, cluster *testcluster.Cluster, names []string, all map[string]fault) {
	t.Helper()
	e := newEnv(t, cluster)
	f := &faults{env: e, journal: &faultproxy.Journal{}}
	f.operator = startOperator(e, "operator", f.journal, electionFlags(patientElection)...)
	f.operator.awaitWarm()
	f.pid = f.operator.Process.Pid
	w := startWork(e, "undisturbed")
	w.do(0)
	w.awaitConverged()
	f.before = f.operator.usage()
	t.Logf("before the faults: %s", f.before)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { f.in(t).run(name, all[name]) })
	}
	f.operator.terminate()
}

// in returns the same faults for a subtest.
func (f *faults) in(t *testing.T) *faults {
	e := *f.env
	e.T = t
	o := *f.operator
	o.e = &e
	return &faults{env: &e, journal: f.journal, operator: &o, before: f.before, pid: f.pid}
}

func (f *faults) run(name string, strike fault) {
	f.Helper()
	f.operator.mustRun()
	begin := time.Now()
	f.Cleanup(func() {
		if f.Failed() {
			f.Log("Requests of the process, without those for its Lease:")
			for _, entry := range f.since(begin, notOnLease) {
				f.Log(entry)
			}
		}
	})
	w := startWork(f.env, strings.ToLower(strings.ReplaceAll(name, " ", "-")))
	strike(f, w)
	took := w.awaitConverged()
	f.Logf("converged %s after the fault", took.Round(time.Millisecond))
	f.operator.mustRun()
	if strings.Contains(f.operator.log.String(), "DATA RACE") || strings.Contains(f.operator.log.String(), "panic") {
		f.Error("the log of the process has a data race or a panic")
	}
	f.awaitUsageOfBefore()
}

// awaitUsageOfBefore waits until the process uses about as much as before the faults. Each fault adds some objects to its caches, and
// connections and timers of the fault may take a while to end.
func (f *faults) awaitUsageOfBefore() {
	f.Helper()
	const (
		moreGoroutines = 10
		moreMemory     = 1.5
	)
	var now usage
	f.eventually(func() string {
		now = f.operator.usage()
		if now.goroutines > f.before.goroutines+moreGoroutines || float64(now.memory) > moreMemory*float64(f.before.memory) {
			return "usage after the fault: got " + now.String() + ", before it was " + f.before.String()
		}
		return ""
	})
	f.Logf("after the fault: %s", now)
}

// since returns the requests that were received after this time.
func (f *faults) since(begin time.Time, condition func(faultproxy.Entry) bool) []faultproxy.Entry {
	return f.journal.Select(func(entry faultproxy.Entry) bool { return entry.Received.After(begin) && condition(entry) })
}

// awaitStruck waits until the fault has affected as many requests as this: with fewer it would prove nothing.
func (f *faults) awaitStruck(begin time.Time, struck func(faultproxy.Entry) bool, least int) {
	f.Helper()
	f.eventually(func() string {
		if count := len(f.since(begin, struck)); count < least {
			return fmt.Sprintf("the fault affected %d requests, want at least %d: nothing is tested", count, least)
		}
		return ""
	})
	f.Logf("the fault affected %d requests", len(f.since(begin, struck)))
}
