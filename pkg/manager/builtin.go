// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
)

const (
	// runsPrefix, with the name of a controller, is a label of the Lease of a process: on if the process runs the controller, off if not.
	runsPrefix      = "controllers.millwright.dev/"
	runsOn, runsOff = "on", "off"
	// runsIn is the label with the only namespace that the process works in, "" for all.
	runsIn = "millwright.dev/namespace"

	// handoverTime is how long the controllers of a Lease that no process holds still count as running: the next leader is about to take it.
	handoverTime = 30 * time.Second
)

// leaseLabels publish what a process runs that leads by a Lease. Those of the other controllers are there too: it may be the first
// leader that does not run one.
func leaseLabels(running []Descriptor, namespace string) map[string]string {
	labels := map[string]string{controller.LabelManagedBy: controller.ManagedBy, runsIn: namespace}
	for _, d := range Descriptors() {
		labels[runsPrefix+d.Name] = runsOff
		if slices.Contains(names(running), d.Name) {
			labels[runsPrefix+d.Name] = runsOn
		}
	}
	return labels
}

// builtIns records which of our controllers run, here or in a process that has its Lease in the same namespace.
type builtIns struct {
	table   []Descriptor
	running []string
	// namespace that this process works in, "" for all.
	namespace string
	// leases are nil where there is no leader election.
	leases cache.SharedIndexInformer
	// forbidden is true where this process has no right to watch them.
	forbidden atomic.Bool
}

// leasesResource are Leases.
var leasesResource = coordinationv1.SchemeGroupVersion.WithResource("leases")

func newBuiltIns(c *Context) (*builtIns, error) {
	b := &builtIns{table: Descriptors(), running: c.Running, namespace: c.Namespace}
	if c.LeaseNamespace == "" {
		return b, nil
	}
	b.leases = c.Select(leasesResource, c.LeaseNamespace, func(options *metav1.ListOptions) { options.LabelSelector = controller.ManagedSelector })
	return b, b.leases.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) && !b.forbidden.Swap(true) {
			klog.FromContext(ctx).Error(err, "No permission to list and watch the Leases of other Deployments of Millwright: a CompositeController for a kind that one of their controllers serves "+
				"conflicts with it; bind the verbs list and watch on leases to this account", "namespace", c.LeaseNamespace)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
}

// servedBy returns which of our controllers serves a resource, "" if none does, and whether it runs. known is false if that is not known
// yet.
func (b *builtIns) servedBy(resource schema.GroupResource) (name string, on, known bool) {
	i := slices.IndexFunc(b.table, func(d Descriptor) bool { return slices.Contains(d.Serves, resource) })
	if i < 0 {
		return "", false, true
	}
	name = b.table[i].Name
	if slices.Contains(b.running, name) {
		return name, true, true
	}
	if b.leases == nil {
		return name, false, true
	}
	for _, obj := range b.leases.GetStore().List() {
		var lease coordinationv1.Lease
		if o, ok := obj.(*unstructured.Unstructured); !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &lease) != nil {
			continue
		}
		if runs(&lease, name, b.namespace, time.Now()) {
			return name, true, true
		}
	}
	return name, false, b.leases.HasSynced() || b.forbidden.Load()
}

// runs reports whether the holder of a Lease runs the controller, in one of the namespaces that matter. One that has not been renewed for
// its duration, and the time of a handover, is not held.
func runs(lease *coordinationv1.Lease, name, namespace string, now time.Time) bool {
	if lease.Labels[runsPrefix+name] != runsOn || lease.Spec.RenewTime == nil {
		return false
	}
	if in := lease.Labels[runsIn]; in != "" && namespace != "" && in != namespace {
		return false
	}
	held := handoverTime
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		held += time.Duration(*seconds) * time.Second
	}
	return now.Before(lease.Spec.RenewTime.Add(held))
}
