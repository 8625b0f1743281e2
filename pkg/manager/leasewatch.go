// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// prepareWatch passes the events of a watch of the Lease to the lock. Without the permission to watch it, the elector polls.
func (l *leadership) prepareWatch(client kubernetes.Interface) error {
	l.informers = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(l.config.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.config.Name).String()
		}))
	informer := l.informers.Coordination().V1().Leases().Informer()
	observe := func(obj any) {
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			l.lease.observe(*resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    observe,
		UpdateFunc: func(_, obj any) { observe(obj) },
	}); err != nil {
		return fmt.Errorf("watching the Lease of the leader election: %w", err)
	}
	var forbidden sync.Once
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		// Any other error occurs in the elector too, and is logged there.
		if apierrors.IsForbidden(err) {
			forbidden.Do(func() {
				klog.FromContext(ctx).Info("No permission to list and watch the Lease: polling it, so that a handover takes some seconds longer", "lease", l.lease.Describe(), "err", err)
			})
		}
	})
}

// watch runs until we lead, or the context ends.
func (l *leadership) watch(ctx context.Context) {
	watchCtx, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	l.informers.StartWithContext(watchCtx)
	select {
	case <-l.elected:
	case <-ctx.Done():
	}
	stopWatching()
	joinAll(ctx, l.informers.Shutdown)
}
