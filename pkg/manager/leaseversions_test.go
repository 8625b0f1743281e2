// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestVersionsRunningBackwardsEndTheProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		leads    bool
		restored func(t *testing.T, c *fakeCluster)
	}{
		"one that leads, whose Lease is an older one": {leads: true, restored: func(t *testing.T, c *fakeCluster) { restore(t, c, "1", "") }},
		"one that stands by, which has not led":       {restored: func(t *testing.T, c *fakeCluster) { restore(t, c, "1", "another") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newFakeCluster()
				if !tc.leads {
					restore(t, cluster, "1000", "another")
				}
				worker := &toy{name: "toy"}
				p := newProcess(t, cluster, worker.descriptor()).start()
				settled(5 * time.Second)
				if p.exited.Load() || worker.working.Load() != tc.leads {
					t.Fatalf("before: exited %t, working %t", p.exited.Load(), worker.working.Load())
				}
				tc.restored(t, cluster)
				settled(5 * time.Second)
				if !p.exited.Load() || !strings.Contains(p.logs(), "versions run backwards") {
					t.Errorf("it goes on:\n%s", p.logs())
				}
				p.stop(nil)
				<-p.ended
			})
		})
	}
}

func TestVersionsThatAreAccepted(t *testing.T) {
	versions := &leaseVersions{onBackwards: func(err error) { t.Error(err) }}
	for _, version := range []string{"", "9", "9", "10", "1000", "not a number", "1001"} {
		versions.observe(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}, nil)
	}
}

// restore puts a Lease of that version and holder into the place of what there is.
func restore(t *testing.T, c *fakeCluster, version, holder string) {
	t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease", ResourceVersion: version},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &now, RenewTime: &now},
	}
	if err := c.Tracker().Delete(leases, "system", "lease"); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	if err := c.Tracker().Create(leases, lease, "system"); err != nil {
		t.Fatal(err)
	}
}
