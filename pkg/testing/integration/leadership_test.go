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
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

// shortElection is for tests that have to wait until a Lease expires. It is not shorter because a machine that is busy with
// other tests must not make a leader miss the deadline.
var shortElection = manager.LeaderElection{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second}

// defaultElection is that of a process without flags.
var defaultElection = manager.NewOptions().LeaderElection

func electionFlags(election manager.LeaderElection) []string {
	return []string{
		"--leader-elect-lease-duration=" + election.LeaseDuration.String(),
		"--leader-elect-renew-deadline=" + election.RenewDeadline.String(),
		"--leader-elect-retry-period=" + election.RetryPeriod.String(),
	}
}

// pair is two processes, of which one leads and the other stands by with warm caches.
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

// awaitWrite waits for the first write of that process since then that took effect, and returns it.
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

// lastWrite of that process that took effect.
func (p *pair) lastWrite(process string, condition func(faultproxy.Entry) bool) (write faultproxy.Entry) {
	for _, entry := range p.journal.Entries() {
		if entry.Proxy == process && entry.TookEffect() && condition(entry) {
			write = entry
		}
	}
	return write
}

// verifyTerms fails the test if any process but the one that last wrote the Lease has written anything else, as the proxies saw
// it. What was refused does no harm, except in a process that has never led: it has no reason to try.
func (p *pair) verifyTerms() {
	p.Helper()
	entries := p.journal.Entries()
	terms := slices.DeleteFunc(slices.Clone(entries), func(entry faultproxy.Entry) bool { return !onLease(entry) || !entry.TookEffect() })
	slices.SortFunc(terms, func(a, b faultproxy.Entry) int { return a.Answered.Compare(b.Answered) })
	for _, entry := range entries {
		if !entry.IsWrite() || onLease(entry) {
			continue
		}
		leader, led := "nobody", false
		for _, term := range terms {
			if term.Answered.After(entry.Received) {
				break
			}
			leader = term.Proxy
			led = led || leader == entry.Proxy
		}
		if leader != entry.Proxy && (entry.TookEffect() || !led) {
			p.Errorf("%s led, but there was this write: %s", leader, entry)
		}
	}
}

// churn creates ImmortalContainers without a pause, so that there always is something to write, until stop is called. It
// returns their names.
func (e *env) churn() (stop func() []string) {
	ctx, cancel := context.WithCancel(e.Context())
	var names []string
	var running sync.WaitGroup
	running.Go(func() {
		for ticker := time.NewTicker(25 * time.Millisecond); ctx.Err() == nil; {
			name := fmt.Sprintf("web-%d", len(names))
			if _, err := e.client.ImmortalcontainersV1alpha1().ImmortalContainers(e.namespace).Create(e.Context(), immortal(name), metav1.CreateOptions{}); err != nil {
				if ctx.Err() == nil {
					e.Errorf("creating work: %v", err)
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

// A handover is what every rolling update of the operator does. It is measured from the signal until the proxy has the answer
// to the next leader's first write, several times: on a busy machine one of them may be late for reasons of its own.
func TestLeaderStops(t *testing.T) {
	const handovers, goal = 3, time.Second
	e := newEnv(t, testcluster.Shared(t))
	pods := recordPods(e)
	p := startPair(e, defaultElection)
	stop := e.churn()
	var took []time.Duration
	begin := time.Now()
	for i := range handovers {
		p.awaitWrite(p.leader.name(), notOnLease, time.Now())
		signaled := time.Now()
		p.leader.terminate()
		first := p.awaitWrite(p.standby.name(), notOnLease, signaled)
		took = append(took, first.Answered.Sub(signaled))
		last := p.lastWrite(p.leader.name(), func(faultproxy.Entry) bool { return true })
		t.Logf("handover %d: last write of the old leader after %s, first of the new one after %s", i+1,
			last.Answered.Sub(signaled).Round(time.Millisecond), took[i].Round(time.Millisecond))
		if !onLease(last) {
			t.Errorf("the old leader wrote on after it had given up the Lease: %s", last)
		}
		// The fence keeps what is in hand from being written when the Lease is given up too early, and says so.
		if strings.Contains(p.leader.log.String(), "this process does not lead") {
			t.Error("the old leader gave up the Lease while it still had something to write")
		}
		if i+1 < handovers {
			p.leader = p.standby
			p.standby = startOperator(e, fmt.Sprintf("successor-%d", i+1), &p.journal)
			p.standby.awaitWarm()
		}
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > testcluster.Stretch(goal, begin) {
		t.Errorf("the handovers took %s: half of them took longer than %s", took, goal)
	}
	names := stop()
	for _, name := range names {
		container, _ := e.awaitReady(name, 1)
		if complaint := pods.verify(container); complaint != "" {
			t.Error(complaint)
		}
	}
	t.Logf("%d ImmortalContainers were created meanwhile", len(names))
	p.verifyTerms()
}

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
	took, limit := first.Answered.Sub(killed), election.LeaseDuration+election.RetryPeriod
	t.Logf("the first write of the other came %s after the kill", took.Round(time.Millisecond))
	if took > testcluster.Stretch(limit, killed) {
		t.Errorf("the first write of the other came %s after the kill: the lease duration and one retry period are %s", took, limit)
	}
	taken := p.awaitWrite(p.standby.name(), onLease, killed)
	if lasted := taken.Answered.Sub(renewed.Received); lasted < election.LeaseDuration {
		t.Errorf("the Lease was taken %s after its last renewal: the one who was killed could still have been at work", lasted)
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

// While the old leader is stopped, everything that it was about to do is done by the other, and then undone: whatever of it the
// old leader still did when it goes on would take effect, and show.
func TestLeaderSuspended(t *testing.T) {
	t.Parallel()
	const count = 40
	e := newEnv(t, testcluster.Shared(t))
	pods := recordPods(e)
	p := startPair(e, shortElection)
	// At any time all workers wait for an answer, after which they write again.
	p.leader.proxy.SetLatency(300 * time.Millisecond)
	for i := range count {
		e.create(immortal(fmt.Sprintf("web-%d", i)))
	}
	e.eventually(func() string {
		reserved := p.journal.Select(func(entry faultproxy.Entry) bool {
			return entry.Proxy == p.leader.name() && entry.TookEffect() && entry.Subresource == "status"
		})
		if len(reserved) < 8 {
			return fmt.Sprintf("%d starts are reserved", len(reserved))
		}
		return ""
	})
	p.leader.signal(syscall.SIGSTOP)
	stopped := time.Now()
	created := e.podCount()
	taken := p.awaitWrite(p.standby.name(), onLease, stopped)
	t.Logf("with %d of %d Pods created the leader was stopped; the other took over after %s", created, count, taken.Answered.Sub(stopped).Round(time.Millisecond))
	if created == count {
		t.Error("there was nothing more to write: nothing is tested")
	}
	for i := range count {
		e.awaitReady(fmt.Sprintf("web-%d", i), 1)
		e.patch(fmt.Sprintf("web-%d", i), `{"spec":{"suspend":true}}`)
	}
	e.eventually(func() string {
		if pods := e.podCount(); pods > 0 {
			return fmt.Sprintf("%d Pods are still there", pods)
		}
		return ""
	})

	// It cannot end before it has said why, and for that it has to wait: time enough for its workers.
	release := p.leader.holdLog(e)
	continued := time.Now()
	p.leader.signal(syscall.SIGCONT)
	e.eventually(func() string {
		if p.leader.get("/metrics") == "" || time.Since(continued) < time.Second {
			return "the old leader does not go on"
		}
		return ""
	})
	release()
	released := time.Now()
	if code := p.leader.awaitEnd(t, patience); code == 0 {
		t.Error("it ended with exit code 0, as if nothing had happened")
	}
	t.Logf("the old leader ended %s after it could say why", time.Since(released).Round(time.Millisecond))
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

// Both lose the API server, which goes on without them. The leader has to end when it cannot renew its Lease; it is then started
// again, as a kubelet does.
func TestLeaderAPIServerOutage(t *testing.T) {
	t.Parallel()
	election, absence := shortElection, shortElection.LeaseDuration+4*time.Second
	if os.Getenv(perturbation.AllPatternsVariable) != "" {
		election, absence = defaultElection, time.Minute
	}
	e := newEnv(t, testcluster.Shared(t))
	p := startPair(e, election)
	w := startWork(e, "web")
	gone := time.Now()
	for _, o := range []*operator{p.leader, p.standby} {
		o.proxy.Refuse()
	}
	if code := p.leader.awaitEnd(t, patience); code == 0 {
		t.Error("it could not renew its Lease, and ended with exit code 0")
	}
	ended := time.Since(gone)
	t.Logf("the leader ended after %s", ended.Round(time.Millisecond))
	if limit := testcluster.Stretch(election.LeaseDuration, gone); ended > limit {
		t.Errorf("the leader ended after %s: by then, another may lead since %s", ended, ended-limit)
	}
	p.leader.restart()
	w.do(absence - time.Since(gone))

	for _, o := range []*operator{p.leader, p.standby} {
		o.mustRun()
		if err := o.proxy.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	back := time.Now()
	took := w.awaitConverged()
	t.Logf("converged %s after the API server was back", took.Round(time.Millisecond))
	if took > testcluster.Stretch(recoveryGoal, back) {
		t.Errorf("it took %s from the return of the API server until everything was as it should be: at most %s are allowed", took, recoveryGoal)
	}
	p.verifyTerms()

	// Both are of use again: whoever does not lead now takes over from the other.
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
