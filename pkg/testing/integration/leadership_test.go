// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

// defaultElection has the defaults of the flags.
var defaultElection = manager.NewOptions().LeaderElection

func electionFlags(election manager.LeaderElection) []string {
	return []string{
		"--leader-elect-lease-duration=" + election.LeaseDuration.String(),
		"--leader-elect-renew-deadline=" + election.RenewDeadline.String(),
		"--leader-elect-retry-period=" + election.RetryPeriod.String(),
	}
}

// pair is two processes: the leader, and a standby with warm caches.
type pair struct {
	*env
	journal         faultproxy.Journal
	leader, standby *operator
}

func startPair(e *env, election manager.LeaderElection) *pair {
	e.Helper()
	return startPairOf(core, e, election)
}

func startPairOf(d deployment, e *env, election manager.LeaderElection) *pair {
	e.Helper()
	p := &pair{env: e}
	p.leader = startProcessOf(d, e, "first", &p.journal, electionFlags(election)...)
	p.awaitWrite("first", onLease, time.Time{})
	p.leader.awaitWarm()
	p.standby = startProcessOf(d, e, "second", &p.journal, electionFlags(election)...)
	p.standby.awaitWarm()
	return p
}

func onLease(entry faultproxy.Entry) bool    { return entry.Resource == "leases" }
func notOnLease(entry faultproxy.Entry) bool { return entry.Resource != "leases" }

// awaitWrite waits for the first write of the process after this time that took effect, and returns it.
func (p *pair) awaitWrite(process string, condition func(faultproxy.Entry) bool, since time.Time) (write faultproxy.Entry) {
	p.Helper()
	p.eventually(func() string {
		for _, entry := range p.journal.Entries() {
			if entry.Proxy == process && entry.TookEffect() && condition(entry) && entry.Received.After(since) {
				write = entry
				return ""
			}
		}
		return "the process " + process + " has not written"
	})
	return write
}

// lastWrite returns the last write of the process that took effect.
func (p *pair) lastWrite(process string, condition func(faultproxy.Entry) bool) (write faultproxy.Entry) {
	for _, entry := range p.journal.Entries() {
		if entry.Proxy == process && entry.TookEffect() && condition(entry) {
			write = entry
		}
	}
	return write
}

// verifyTerms fails the test if a process has written anything while another one had written the Lease last, as the proxies saw it.
// A refused write is no failure, unless the process has never led.
func (p *pair) verifyTerms() {
	p.Helper()
	entries := p.journal.Entries()
	terms := slices.DeleteFunc(slices.Clone(entries), func(entry faultproxy.Entry) bool { return !onLease(entry) || !entry.TookEffect() })
	slices.SortFunc(terms, func(a, b faultproxy.Entry) int { return a.Answered.Compare(b.Answered) })
	for _, entry := range entries {
		if !entry.IsWrite() || onLease(entry) {
			continue
		}
		leader, led := "no process", false
		for _, term := range terms {
			if term.Answered.After(entry.Received) {
				break
			}
			leader = term.Proxy
			led = led || leader == entry.Proxy
		}
		if leader != entry.Proxy && (entry.TookEffect() || !led) {
			p.Errorf("got write %s while %s led", entry, leader)
		}
	}
}

// churn creates ImmortalContainers all the time, so that the leader always has something to write, until stop is called. stop returns
// their names.
func (e *env) churn() (stop func() []string) {
	ctx, cancel := context.WithCancel(e.Context())
	var names []string
	var running sync.WaitGroup
	running.Go(func() {
		for ticker := time.NewTicker(25 * time.Millisecond); ctx.Err() == nil; {
			name := fmt.Sprintf("web-%d", len(names))
			_, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Create(e.Context(), immortal(name), metav1.CreateOptions{})
			if err != nil {
				if ctx.Err() == nil {
					e.Errorf("creating ImmortalContainer %s: %v", name, err)
				}
				return
			}
			names = append(names, name)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ticker.Stop()
			}
		}
	})
	stop = sync.OnceValue(func() []string {
		cancel()
		running.Wait()
		return names
	})
	e.Cleanup(func() { stop() })
	return stop
}

// Every rolling update of the operator hands the leadership over, without a pause: the retry period is longer than the test waits, so the standby
// can learn of the release of the Lease by its watch alone.
func TestLeaderStops(t *testing.T) {
	t.Parallel()
	const handovers = 3
	e := newEnv(t, testcluster.Shared(t))
	pods := recordPods(e)
	p := startPair(e, manager.LeaderElection{LeaseDuration: 4 * patience.Limit, RenewDeadline: 3 * patience.Limit, RetryPeriod: 2 * patience.Limit})
	stop := e.churn()
	for i := range handovers {
		p.awaitWrite(p.leader.name(), notOnLease, time.Now())
		signaled := time.Now()
		p.leader.terminate()
		first := p.awaitWrite(p.standby.name(), notOnLease, signaled)
		last := p.lastWrite(p.leader.name(), func(faultproxy.Entry) bool { return true })
		t.Logf("handover %d: last write of the old leader after %s, first of the new one after %s", i+1,
			last.Answered.Sub(signaled).Round(time.Millisecond), first.Answered.Sub(signaled).Round(time.Millisecond))
		if !onLease(last) {
			t.Errorf("last write of the old leader: got %s, want the release of the Lease", last)
		}
		// If the Lease is released too early, the fence refuses pending writes and logs it.
		if strings.Contains(p.leader.log.String(), "this process does not lead") {
			t.Error("the old leader released the Lease before its last write")
		}
		if i+1 < handovers {
			p.leader = p.standby
			p.standby = startOperator(e, fmt.Sprintf("successor-%d", i+1), &p.journal)
			p.standby.awaitWarm()
		}
	}
	names := stop()
	for _, name := range names {
		container, _ := e.awaitReady(name, 1)
		if complaint := pods.verify(container); complaint != "" {
			t.Error(complaint)
		}
	}
	t.Logf("created %d ImmortalContainers meanwhile", len(names))
	p.verifyTerms()
}

// After the leader is killed, the standby writes, and not before the Lease has expired.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	pods := recordPods(e)
	election := defaultElection
	p := startPair(e, election)
	e.create(immortal("web"))
	e.awaitReady("web", 1)

	killed := time.Now()
	p.leader.signal(syscall.SIGKILL)
	renewed := p.lastWrite(p.leader.name(), onLease)
	e.deletePod("web")
	e.create(immortal("new"))
	first := p.awaitWrite(p.standby.name(), notOnLease, killed)
	t.Logf("the standby wrote %s after the kill", first.Answered.Sub(killed).Round(time.Millisecond))
	taken := p.awaitWrite(p.standby.name(), onLease, killed)
	if lasted := taken.Answered.Sub(renewed.Received); lasted < election.LeaseDuration {
		t.Errorf("the standby acquired the Lease %s after its last renewal, want %s at least", lasted, election.LeaseDuration)
	}
	for name, starts := range map[string]int64{"web": 2, "new": 1} {
		container, _ := e.awaitReady(name, starts)
		if complaint := pods.verify(container); complaint != "" {
			t.Error(complaint)
		}
	}
	p.verifyTerms()
	p.standby.terminate()
}

// While the old leader is stopped by SIGSTOP, the standby does all pending work, and users undo it. A write of the old leader after SIGCONT
// would take effect, and the test would see it.
func TestLeaderSuspended(t *testing.T) {
	t.Parallel()
	const count = 40
	e := newEnv(t, testcluster.Shared(t))
	pods := recordPods(e)
	p := startPair(e, defaultElection)
	// With this latency all workers always wait for a response, after which they write again.
	p.leader.proxy.SetLatency(300 * time.Millisecond)
	for i := range count {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	e.eventually(func() string {
		reserved := p.journal.Select(func(entry faultproxy.Entry) bool {
			return entry.Proxy == p.leader.name() && entry.TookEffect() && entry.Subresource == "status"
		})
		if len(reserved) < 8 {
			return fmt.Sprintf("got %d reserved starts, want 8", len(reserved))
		}
		return ""
	})
	p.leader.suspend()
	stopped := time.Now()
	created := e.podCount()
	taken := p.awaitWrite(p.standby.name(), onLease, stopped)
	t.Logf("stopped the leader with %d of %d Pods created; the standby took over after %s",
		created, count, taken.Answered.Sub(stopped).Round(time.Millisecond))
	if created == count {
		t.Error("all Pods were created before the leader was stopped: nothing is tested")
	}
	for i := range count {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
		e.patch(fmt.Sprintf("web-%d", i), `{"spec":{"suspend":true}}`)
	}
	e.eventually(func() string {
		if pods := e.podCount(); pods > 0 {
			return fmt.Sprintf("%d Pods still exist", pods)
		}
		return ""
	})

	// The old leader logs the reason before it ends. While its log is held its workers have time to write.
	release := p.leader.holdLog(e)
	continued := time.Now()
	p.leader.signal(syscall.SIGCONT)
	e.eventually(func() string {
		if p.leader.get("/metrics") == "" || time.Since(continued) < time.Second {
			return "the old leader does not run yet"
		}
		return ""
	})
	release()
	released := time.Now()
	if code := p.leader.awaitEnd(t); code == 0 {
		t.Error("got exit code 0, want an error")
	}
	t.Logf("the old leader ended %s after its log was released", time.Since(released).Round(time.Millisecond))
	p.verifyTerms()
	p.standby.mustRun()
	e.patch("web-0", `{"spec":{"suspend":false}}`)
	e.awaitReady("web-0", 2)
	for i := range count {
		if complaint := pods.verify(e.get(fmt.Sprintf("web-%d", i))); complaint != "" {
			t.Error(complaint)
		}
	}
	p.standby.terminate()
}

// Both processes lose the connection to the API server. The leader has to end when it cannot renew its Lease. The test starts it again, as
// a kubelet does.
func TestLeaderAPIServerOutage(t *testing.T) {
	t.Parallel()
	election, absence := defaultElection, defaultElection.LeaseDuration+4*time.Second
	if os.Getenv(perturbation.AllPatternsVariable) != "" {
		absence = time.Minute
	}
	e := newEnv(t, testcluster.Shared(t))
	p := startPair(e, election)
	w := startWork(e, "web")
	gone := time.Now()
	for _, o := range []*operator{p.leader, p.standby} {
		o.proxy.Refuse()
	}
	if code := p.leader.awaitEnd(t); code == 0 {
		t.Error("leader that cannot renew its Lease: got exit code 0, want an error")
	}
	t.Logf("the leader ended after %s", time.Since(gone).Round(time.Millisecond))
	p.leader.restart()
	w.do(absence - time.Since(gone))

	for _, o := range []*operator{p.leader, p.standby} {
		o.mustRun()
		if err := o.proxy.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	took := w.awaitConverged()
	t.Logf("converged %s after the API server was back", took.Round(time.Millisecond))
	p.verifyTerms()

	// Both processes work again: the one that does not lead takes over from the other.
	p.leader.awaitWarm()
	p.standby.awaitWarm()
	if p.lastWrite(p.standby.name(), onLease).Received.After(p.lastWrite(p.leader.name(), onLease).Received) {
		p.leader, p.standby = p.standby, p.leader
	}
	p.leader.terminate()
	e.create(immortal("last"))
	e.awaitReady("last", 1)
	p.verifyTerms()
	p.standby.terminate()
}
