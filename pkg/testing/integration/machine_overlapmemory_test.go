// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

// In one namespace 500 Machines match each other's switches, 50,000 of them. A Machine in another namespace is served in its turn: while they are
// created, while all change, and after a restart.
func TestMachineOverlapMemory(t *testing.T) {
	onlyAsMemoryTest(t)
	cluster := testcluster.Start(t, clusterOptions...)
	e, other := newEnv(t, cluster), newEnv(t, cluster)
	const (
		machines, each = 500, 100
		// mostCreated and mostChanged are how many of the 50,000 switches are created, and changed, while the other Machine waits.
		mostCreated, mostChanged = 2500, 1000
		changes                  = 3000
	)
	created := func() int {
		list, err := e.client.UselessV1alpha1().Switches(e.namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		count := len(list.Items)
		if list.RemainingItemCount != nil {
			count += int(*list.RemainingItemCount)
		}
		return count
	}
	others := 0
	served := func(what string, count func() int, most int) {
		t.Helper()
		begin, before := time.Now(), count()
		name := fmt.Sprint("other-", others)
		others++
		other.createMachine(newMachine(name, 3))
		other.awaitMachine(name, 3)
		after := count()
		t.Logf("%s: the other is served in %v, meanwhile from %d to %d", what, time.Since(begin), before, after)
		if after-before > most {
			t.Errorf("%s: got %d before the other is served, want at most %d", what, after-before, most)
		}
	}

	p := startCore(t, cluster)
	served("nothing else happens", created, 0)
	for i := range machines {
		e.createMachine(newMachine(fmt.Sprint("machine-", i), each, func(spec *v1alpha1.MachineSpec) {
			spec.Selector = selectorOf(20, 50) // as large as it may be
		}))
	}
	for created() < machines*each {
		served("switches are created", created, mostCreated)
		time.Sleep(time.Second) // nothing depends on it
	}

	all := e.switches()
	var changed atomic.Int64
	countChanged := func() int { return int(changed.Load()) }
	var authors sync.WaitGroup
	for range 8 {
		authors.Go(func() {
			for i := changed.Add(1); i <= changes; i = changed.Add(1) {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"changed":"%d"}},"spec":{"position":"up"}}`, i)
				e.patchSwitch(all[int(i)*len(all)/(changes+1)].Name, patch)
			}
		})
	}
	for countChanged() < changes {
		served("switches are changed", countChanged, mostChanged)
	}
	authors.Wait()
	p.mustHaveFit(t)

	p = startCore(t, cluster)
	served("after a restart", countChanged, 0)
	p.mustHaveFit(t)
}
