// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// settled waits for what happens without time passing.
func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// startPair returns a leader, and another process that stands by.
func startPair(t *testing.T, cluster *fakeCluster) (leader, standby *process, led, stood *toy) {
	led, stood = &toy{name: "toy"}, &toy{name: "toy"}
	leader = newProcess(t, cluster, led.descriptor()).start()
	settled(time.Second)
	standby = newProcess(t, cluster, stood.descriptor()).start()
	settled(5 * time.Second)
	if !led.working.Load() || stood.working.Load() {
		t.Fatalf("the first process works: %t, the second one: %t; want only the first to", led.working.Load(), stood.working.Load())
	}
	return leader, standby, led, stood
}

func mustEnd(t *testing.T, p *process) {
	t.Helper()
	if err := p.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestStoppedLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		leader, standby, led, stood := startPair(t, cluster)
		before := time.Now()
		mustEnd(t, leader)
		settled(900*time.Millisecond - time.Since(before))
		if !stood.working.Load() {
			t.Error("the standby does not work within a second")
		}
		if got := stood.workers.Load(); got != 3 {
			t.Errorf("it has %d workers, want 3", got)
		}
		mustEnd(t, standby)
		if got := cluster.holder(t); got != "" {
			t.Errorf("after both have stopped the Lease is held by %q, want no holder", got)
		}
		if led.runs.Load() != 1 || stood.runs.Load() != 1 {
			t.Error("a controller was not run exactly once")
		}
	})
}

func TestHandoverWithoutLeaseWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		for _, verb := range []string{"list", "watch"} {
			forbid := func(clienttesting.Action) error {
				return apierrors.NewForbidden(leases.GroupResource(), "lease", nil)
			}
			cluster.PrependReactor(verb, "leases", func(a clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbid(a) })
		}
		leader, standby, _, stood := startPair(t, cluster)
		mustEnd(t, leader)
		settled(5 * time.Second)
		if !stood.working.Load() {
			t.Error("the standby does not work after the longest pause between two polls")
		}
		if got := linesWith(standby.logs(), "No permission to list and watch the Lease"); got != 1 {
			t.Errorf("the log says %d times that the Lease cannot be watched, want once:\n%s", got, standby.logs())
		}
		mustEnd(t, standby)
	})
}

func TestAStandbyThatIsStoppedLeavesTheLeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		leader, standby, led, stood := startPair(t, cluster)
		holder := cluster.holder(t)
		before := time.Now()
		mustEnd(t, standby)
		if took := time.Since(before); took > 100*time.Millisecond {
			t.Errorf("the standby took %s to stop", took)
		}
		if got := stood.tooLate.Load(); got != 1 {
			t.Errorf("its controller was run %d times with an ended context, want once, for its queue to end", got)
		}
		if got := cluster.holder(t); got != holder || !led.working.Load() {
			t.Errorf("the Lease is held by %q, want still %q", got, holder)
		}
		mustEnd(t, leader)
	})
}

func TestLeaderWithoutRenewalEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		leader, standby, _, stood := startPair(t, cluster)
		leader.cut.Store(true)
		cutAt := time.Now()
		<-leader.ended
		if !leader.exited.Load() || leader.err == nil {
			t.Error("the process was not ended")
		}
		if took := time.Since(cutAt); took > 10*time.Second {
			t.Errorf("it ended after %s, want the renew deadline of 10s at most", took)
		}
		if stood.working.Load() {
			t.Error("the standby worked before the leader had ended")
		}
		if got := linesWith(leader.logs(), "Cannot read or write the Lease"); got != 1 {
			t.Errorf("the log says %d times what is wrong, want once:\n%s", got, leader.logs())
		}
		settled(15*time.Second + time.Millisecond - time.Since(cutAt))
		if !stood.working.Load() {
			t.Errorf("the standby does not work a lease duration after the last renewal")
		}
		mustEnd(t, standby)
	})
}

func TestARestartedProcessKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		first, again, other := &toy{name: "toy"}, &toy{name: "toy"}, &toy{name: "toy"}
		killed := newProcess(t, cluster, first.descriptor())
		killed.config.LeaderElection.Identity = "make-run"
		killed.start()
		settled(5 * time.Second)
		standby := newProcess(t, cluster, other.descriptor()).start()
		settled(5 * time.Second)
		if got := linesWith(standby.logs(), `Standing by, another process leads lease="system/lease" leader="make-run"`); got != 1 {
			t.Errorf("the log has %d lines that name the leader, want one:\n%s", got, standby.logs())
		}
		killed.cut.Store(true) // it does not release the Lease
		mustEnd(t, killed)
		restarted := newProcess(t, cluster, again.descriptor())
		restarted.config.LeaderElection.Identity = "make-run"
		restarted.start()
		settled(time.Second)
		if !again.working.Load() || other.working.Load() {
			t.Errorf("after a second the restarted process works: %t, the standby: %t; want only the restarted one to", again.working.Load(), other.working.Load())
		}
		settled(time.Minute)
		if other.working.Load() {
			t.Error("the standby works too")
		}
		mustEnd(t, restarted)
		mustEnd(t, standby)
	})
}

func TestLostLeaseEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		worker := &toy{name: "toy"}
		leader := newProcess(t, cluster, worker.descriptor()).start()
		settled(5 * time.Second)
		lease, err := cluster.CoordinationV1().Leases("system").Get(t.Context(), "lease", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		thief := "thief"
		lease.Spec.HolderIdentity = &thief
		if _, err := cluster.CoordinationV1().Leases("system").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settled(3 * time.Second)
		if !leader.exited.Load() {
			t.Error("the process was not ended")
		}
		<-leader.ended
		if got := cluster.holder(t); got != thief {
			t.Errorf("the Lease is held by %q, want it left to %q", got, thief)
		}
	})
}

func TestADeletedLeaseDoesNotMakeTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		leader, standby, led, stood := startPair(t, cluster)
		holder := cluster.holder(t)
		if err := cluster.CoordinationV1().Leases("system").Delete(t.Context(), "lease", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			settled(500 * time.Millisecond)
			if stood.working.Load() {
				t.Fatal("the standby works while the leader does")
			}
		}
		if got := cluster.holder(t); got != holder || !led.working.Load() {
			t.Errorf("the Lease is held by %q, want it made again by the leader %q", got, holder)
		}
		mustEnd(t, standby)
		mustEnd(t, leader)
	})
}

func TestOfManyStandbysOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		var toys []*toy
		var all []*process
		for range 5 {
			one := &toy{name: "toy"}
			toys, all = append(toys, one), append(all, newProcess(t, cluster, one.descriptor()).start())
		}
		working := func() (leader int) {
			leader = -1
			for i, toy := range toys {
				if !toy.working.Load() {
					continue
				}
				if leader >= 0 {
					t.Fatal("two processes work")
				}
				leader = i
			}
			return leader
		}
		for range all {
			settled(3 * time.Second)
			leader := working()
			if leader < 0 {
				t.Fatal("no process works")
			}
			mustEnd(t, all[leader])
		}
	})
}

func TestLeaseOfKilledProcessExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		killed := "killed"
		lease := newLease(killed, 15)
		if _, err := cluster.CoordinationV1().Leases("system").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		worker := &toy{name: "toy"}
		p := newProcess(t, cluster, worker.descriptor()).start()
		settled(14900 * time.Millisecond)
		if worker.working.Load() {
			t.Error("it works before the Lease has expired as seen from here: the clock of the killed one may have been wrong")
		}
		settled(200 * time.Millisecond)
		if !worker.working.Load() {
			t.Error("it does not work though the Lease has expired")
		}
		mustEnd(t, p)
	})
}

func TestWritesUntilRenewDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		leader, standby := newProcess(t, cluster), newProcess(t, cluster)
		first, err := newLeadership(leader.ctx, leader.config, func(error) {}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		second, err := newLeadership(standby.ctx, standby.config, func(error) {}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if first.mayWrite() == nil {
			t.Error("a process may write before it leads")
		}
		first.start(leader.ctx)
		settled(time.Second)
		second.start(standby.ctx)
		settled(time.Minute)
		if err := first.mayWrite(); err != nil {
			t.Errorf("the leader may not write: %v", err)
		}
		if second.mayWrite() == nil {
			t.Error("the standby may write")
		}
		leader.cut.Store(true)
		settled(7 * time.Second)
		if err := first.mayWrite(); err != nil {
			t.Errorf("a leader may not write though its last renewal is younger than the deadline: %v", err)
		}
		settled(3 * time.Second)
		if first.mayWrite() == nil {
			t.Error("a leader may write after its renew deadline")
		}
		if second.mayWrite() == nil {
			t.Error("the standby may write before the Lease has expired")
		}
		settled(5 * time.Second)
		if err := second.mayWrite(); err != nil {
			t.Errorf("the new leader may not write: %v", err)
		}
		first.stop(leader.ctx)
		second.stop(standby.ctx)
		if second.mayWrite() == nil {
			t.Error("a process may write after it has given up its Lease")
		}
	})
}

func TestSuspendedProcessMayNotWrite(t *testing.T) {
	// As it is when the process goes on: the deadline has passed, and its timer has not come to run.
	stopped := renewalAt(time.Now().Add(-11 * time.Second))
	// As it is when the machine goes on: only the wall clock has not stood still.
	suspended := renewalAt(time.Now())
	suspended.wall = suspended.wall.Add(-11 * time.Second)
	setBack := renewalAt(time.Now().Add(-11 * time.Second))
	setBack.wall = setBack.wall.Add(time.Hour)
	for name, renewed := range map[string]renewal{"the process": stopped, "the machine": suspended, "the process, and the wall clock was set back": setBack} {
		l := &lease{renewDeadline: 10 * time.Second, renewed: renewed}
		if err := l.mayWrite(); err == nil || !strings.Contains(err.Error(), "was renewed 11s ago, which is more than the renew deadline 10s") {
			t.Errorf("%s was suspended: got %v, want it refused", name, err)
		}
	}
}
