// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

func TestConstructorError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		good, bad := &toy{name: "good"}, &toy{name: "bad", fails: errors.New("no such setting"), requires: []schema.GroupVersionResource{widgets}}
		p := newProcess(t, cluster, good.descriptor(), bad.descriptor()).start()
		settled(time.Second)
		cluster.serve(served("example.org", "v2", "widgets"))
		<-p.ended
		if want := "building the controller bad: no such setting"; p.err == nil || p.err.Error() != want {
			t.Errorf("got  %v\nwant %s", p.err, want)
		}
		if good.runs.Load() != 1 || good.working.Load() {
			t.Error("the other controller was not run and joined")
		}
		if holder := cluster.holder(t); holder != "" {
			t.Errorf("the Lease is left to %s", holder)
		}
	})
}

func TestTheLeaseIsGivenUpAfterTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		cluster.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			note("event " + action.(clienttesting.CreateAction).GetObject().(*corev1.Event).Reason)
			return false, nil, nil
		})
		cluster.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if *action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).Spec.HolderIdentity == "" {
				note("lease")
			}
			return false, nil, nil
		})
		quick, slow := &toy{name: "quick"}, &toy{name: "slow", hangs: make(chan struct{})}
		quick.finished = func() { note("quick") }
		slow.finished = func() { note("slow"); slow.recordEvent("Done") }
		p := newProcess(t, cluster, quick.descriptor(), slow.descriptor()).start()
		settled(time.Second)
		p.stop(nil)
		settled(14 * time.Second) // longer than the renew deadline: it goes on renewing meanwhile
		if got := cluster.holder(t); got == "" || p.exited.Load() {
			t.Error("the Lease is not held any more while a controller has not ended")
		}
		if got := linesWith(p.logs(), `Waiting for controllers to finish their syncs controllers=["slow"]`); got != 4 {
			t.Errorf("the log names the controller that has not ended %d times in 14 seconds, want 4:\n%s", got, p.logs())
		}
		close(slow.hangs)
		<-p.ended
		if p.err != nil {
			t.Errorf("Run: %v", p.err)
		}
		if want := []string{"quick", "slow", "event Done", "lease"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

func TestHangingControllerKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		quick, stuck := &toy{name: "quick"}, &toy{name: "stuck", hangs: make(chan struct{})}
		p := newProcess(t, cluster, quick.descriptor(), stuck.descriptor()).start()
		settled(time.Second)
		before := time.Now()
		err := p.end()
		if want := "these controllers have not stopped within 15s: stuck"; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if took := time.Since(before); took != 15*time.Second {
			t.Errorf("it gave up after %s", took)
		}
		if holder := cluster.holder(t); holder == "" {
			t.Error("the Lease was given up while a controller may still write")
		}
		close(stuck.hangs)
		// In real life the process is gone now. Here the elector has to be ended by losing.
		p.cut.Store(true)
		settled(time.Minute)
	})
}

func TestWithoutLeaderElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster()
		worker := &toy{name: "toy"}
		p := newProcess(t, cluster, worker.descriptor())
		p.config.LeaderElection = nil
		p.start()
		settled(0)
		if !worker.working.Load() {
			t.Error("it does not work")
		}
		mustEnd(t, p)
		if got := cluster.holder(t); got != "absent" {
			t.Errorf("there is a Lease of %q", got)
		}
		if !strings.Contains(p.logs(), "Stopped") {
			t.Errorf("the log does not end with the end:\n%s", p.logs())
		}
	})
}
