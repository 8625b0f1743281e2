// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// leaseVersions checks the resourceVersions of one Lease. They only grow, unless the API server's store was replaced by an older one,
// for instance when etcd is restored from a backup. Then all caches of this process are ahead of the API server, its watches are silent
// until its versions have caught up, and objects in the caches may not exist. No refused write and no condition would show it. A Lease is
// read live every few seconds, so it shows here first, also in a standby.
type leaseVersions struct {
	coordinationv1client.LeasesGetter
	// onBackwards is called when a version is older than one before.
	onBackwards func(error)

	mu     sync.Mutex
	newest string
}

// Leases implements coordinationv1client.LeasesGetter.
func (v *leaseVersions) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &watchedLeases{LeaseInterface: v.LeasesGetter.Leases(namespace), versions: v}
}

// watchedLeases reports what is read and written.
type watchedLeases struct {
	coordinationv1client.LeaseInterface
	versions *leaseVersions
}

// Get implements coordinationv1client.LeaseInterface.
func (l *watchedLeases) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, options)
	l.versions.observe(lease, err)
	return lease, err
}

// Create implements coordinationv1client.LeaseInterface.
func (l *watchedLeases) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Create(ctx, lease, options)
	l.versions.observe(lease, err)
	return lease, err
}

// Update implements coordinationv1client.LeaseInterface.
func (l *watchedLeases) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Update(ctx, lease, options)
	l.versions.observe(lease, err)
	return lease, err
}

// observe checks an answer. The elector waits for each answer before the next request, so they come in order. A version that cannot be
// compared, as those of fakes, is ignored.
func (v *leaseVersions) observe(lease *coordinationv1.Lease, err error) {
	if err != nil || lease == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, v.newest)
	if v.newest != "" && err == nil && order < 0 {
		v.onBackwards(fmt.Errorf("the resourceVersion of Lease %s/%s was %s and is %s: versions run backwards, so the API server's store was replaced by an older one, "+
			"as when etcd is restored from a backup", lease.Namespace, lease.Name, v.newest, lease.ResourceVersion))
	}
	v.newest = lease.ResourceVersion
}
