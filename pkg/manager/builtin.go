// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"sync"
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
	"k8s.io/utils/ptr"

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

	mu sync.Mutex
	// seen are the renewals of Leases, by their names.
	seen map[string]sighting
}

// sighting is the last renewal of a Lease that this process has seen.
type sighting struct {
	// renewal is the time by the clock of the holder, which may be hours away from ours. Another time is another renewal.
	renewal metav1.MicroTime
	// at is when this process saw it first.
	at time.Time
	// followed is whether this process has seen the renewal before it, too.
	followed bool
}

// see returns the sighting of a Lease that has been renewed, given the one before.
func (s sighting) see(renewal metav1.MicroTime, now time.Time) sighting {
	if s.renewal.Equal(&renewal) {
		return s
	}
	return sighting{renewal: renewal, at: now, followed: !s.at.IsZero()}
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
	on, known = b.runs(name, time.Now())
	return name, on, on || known && (b.leases.HasSynced() || b.forbidden.Load())
}

// runs reports whether a process that has a Lease runs the controller.
func (b *builtIns) runs(name string, now time.Time) (on, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]sighting{}
	known = true
	for _, obj := range b.leases.GetStore().List() {
		var lease coordinationv1.Lease
		if o, ok := obj.(*unstructured.Unstructured); !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &lease) != nil {
			continue
		}
		if lease.Spec.RenewTime == nil {
			continue // it was never held
		}
		sight := b.seen[lease.Name].see(*lease.Spec.RenewTime, now)
		seen[lease.Name] = sight
		if !isOf(&lease, name, b.namespace) {
			continue
		}
		held, heldKnown := isHeld(&lease, sight, now)
		on, known = on || held, known && heldKnown
	}
	b.seen = seen
	return on, known
}

// isOf reports whether a Lease is that of processes that run the controller, in one of the namespaces that matter.
func isOf(lease *coordinationv1.Lease, name, namespace string) bool {
	in := lease.Labels[runsIn]
	return lease.Labels[runsPrefix+name] == runsOn && (in == "" || namespace == "" || in == namespace)
}

// isHeld reports whether a process holds a Lease. One that has not been renewed for its duration, and the time of a handover, is not held. That is
// not known for a duration where this process has only seen a renewal that is old by the wall clock: the clock of the holder may be wrong.
func isHeld(lease *coordinationv1.Lease, sight sighting, now time.Time) (held, known bool) {
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	age := now.Sub(sight.at)
	if sight.followed || now.Before(sight.renewal.Add(duration+handoverTime)) {
		return age < duration+handoverTime, true
	}
	return false, age >= duration
}
