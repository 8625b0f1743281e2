// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// lease is the lock of client-go's elector. To what a LeaseLock does it adds:
//   - It records when the process last renewed, and reports whether it may write (mayWrite).
//   - It gets what a watch sees (observe), and asks for an attempt immediately when the Lease becomes free (onFree). Without it,
//     the elector polls every 2 to 4.4 seconds.
//   - It measures expiry itself, across the attempts, and returns an expired holder as none: a new elector would wait for a whole
//     lease duration again. As in client-go, the clocks of other machines do not matter: a holder has expired when its record has
//     not changed, as seen from here, for the lease duration.
//   - It treats a deleted Lease as held until it would have expired: a deletion does not prove that the holder has stopped.
//   - It lets a write complete that the elector would cancel, so that its result is known.
//   - It logs errors with advice.
type lease struct {
	resourcelock.LeaseLock
	logger        klog.Logger
	renewDeadline time.Duration
	onFree        func()          // the Lease is free; not called while we lead
	onElected     func()          // called once
	onLost        func(err error) // called once

	complaint complaint // used by the elector's goroutine only

	mu       sync.Mutex
	seen     resourcelock.LeaderElectionRecord
	seenAt   time.Time
	expiry   *time.Timer // runs while another process holds the Lease
	renewed  renewal     // the last one that succeeded; zero while we do not lead
	deadline *time.Timer // runs while we lead
	lost     error       // why we do not lead any more; never reset
}

// renewal is when a renewal was sent, by two clocks: by one that is never set, but stands still while the machine is suspended, and by the wall clock.
type renewal struct{ at, wall time.Time }

func renewalAt(sent time.Time) renewal { return renewal{sent, sent.Round(0)} }

func (r renewal) isZero() bool { return r.at.IsZero() }

// age returns the time since the renewal by the clock that has gone further. If the wall clock is set forward, nothing is written until the next renewal.
func (r renewal) age() time.Duration {
	now := time.Now()
	return max(now.Sub(r.at), now.Round(0).Sub(r.wall))
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, l.complain(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.heldByOther() {
			held := l.seen
			return &held, []byte("deleted"), nil
		}
		return nil, nil, err
	}
	l.see(*record)
	if !l.renewed.isZero() && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.lose(fmt.Errorf("%s has taken it", record.HolderIdentity))
	}
	if record.HolderIdentity != l.Identity() && !l.heldByOther() {
		record.HolderIdentity = ""
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Create)
}

// Update implements resourcelock.Interface.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Update)
}

// write makes us the leader, or keeps us the leader, if it succeeds.
func (l *lease) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if err := l.isLost(); err != nil {
		return err
	}
	sent := time.Now()
	if err := write(context.WithoutCancel(ctx), record); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return err // another process was faster; the next Get returns which
		}
		return l.complain(err)
	}
	l.complaint.settle(l.logger, "The leader election works again")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.see(record)
	elected := l.renewed.isZero()
	l.renewed = renewalAt(sent)
	if l.deadline != nil {
		l.deadline.Stop()
	}
	l.deadline = time.AfterFunc(l.renewDeadline-time.Since(sent), func() { l.missed(sent) })
	if elected {
		l.onElected()
	}
	return nil
}

// missed is called a renew deadline after the renewal, or when a later one succeeds just now.
func (l *lease) missed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.at.Equal(sent) {
		l.lose(fmt.Errorf("it could not be renewed for %s", l.renewDeadline))
	}
}

// lose ends our leadership. From now on this process writes neither the Lease nor anything else.
func (l *lease) lose(reason error) {
	if l.lost == nil {
		l.lost = reason
		l.onLost(reason)
	}
}

// observe records what a watch sees, which may be late. While we lead it is ignored: the elector reads the Lease when a renewal
// fails, and that answer is newer.
func (l *lease) observe(record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.isZero() && l.see(record) && record.HolderIdentity == "" {
		l.onFree()
	}
}

// see stores a record and reports whether it is a new one.
func (l *lease) see(record resourcelock.LeaderElectionRecord) bool {
	if apiequality.Semantic.DeepEqual(l.seen, record) {
		return false
	}
	if other := record.HolderIdentity; l.renewed.isZero() && other != l.seen.HolderIdentity && other != "" && other != l.Identity() {
		l.logger.Info("Standing by, another process leads", "lease", l.Describe(), "leader", other)
	}
	l.seen, l.seenAt = record, time.Now()
	if l.expiry != nil {
		l.expiry.Stop()
	}
	if l.heldByOther() {
		l.expiry = time.AfterFunc(l.seenDuration(), func() { l.expired(record) })
	}
	return true
}

// expired is called when the record has not changed for its lease duration, or is being replaced just now.
func (l *lease) expired(record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.isZero() && apiequality.Semantic.DeepEqual(l.seen, record) {
		l.logger.Info("The leader has not renewed its Lease in time", "lease", l.Describe(), "leader", record.HolderIdentity)
		l.onFree()
	}
}

func (l *lease) heldByOther() bool {
	holder := l.seen.HolderIdentity
	return holder != "" && holder != l.Identity() && time.Since(l.seenAt) < l.seenDuration()
}

func (l *lease) seenDuration() time.Duration {
	return time.Duration(l.seen.LeaseDurationSeconds) * time.Second
}

// mayWrite returns why this process must not write: it does not lead, or another process may lead by now.
func (l *lease) mayWrite() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return fmt.Errorf("this process does not lead any more: Lease %s is lost: %w", l.Describe(), l.lost)
	}
	if l.renewed.isZero() {
		return fmt.Errorf("this process does not lead: Lease %s is not ours", l.Describe())
	}
	if age := l.renewed.age(); age >= l.renewDeadline {
		return fmt.Errorf("this process may not lead any more: Lease %s was renewed %s ago, which is more than the renew deadline %s",
			l.Describe(), age.Round(time.Millisecond), l.renewDeadline)
	}
	return nil
}

func (l *lease) isLost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// release empties the Lease if we hold it, so that the next leader takes it immediately. It must not be called before the elector
// has stopped. After it nothing may be written.
func (l *lease) release(ctx context.Context) (released bool, err error) {
	l.mu.Lock()
	led := !l.renewed.isZero() && l.lost == nil
	record := resourcelock.LeaderElectionRecord{LeaderTransitions: l.seen.LeaderTransitions, LeaseDurationSeconds: 1}
	l.renewed = renewal{}
	l.stopTimers()
	l.mu.Unlock()
	if !led {
		return false, nil
	}
	now := metav1.Now()
	record.AcquireTime, record.RenewTime = now, now
	// The Lease that LeaseLock holds has the resourceVersion of our last renewal: if another process has written since, this
	// fails, as it should.
	err = l.LeaseLock.Update(ctx, record)
	return err == nil, err
}

func (l *lease) stopTimers() {
	for _, timer := range []*time.Timer{l.expiry, l.deadline} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// complain logs what failed, with advice, and returns the error.
func (l *lease) complain(err error) error {
	advice := ""
	switch {
	case apierrors.IsForbidden(err):
		advice = ": bind the verbs get, create, update, list and watch on leases in namespace " + l.LeaseMeta.Namespace +
			" to this account, or choose another namespace with --leader-elect-lease-namespace"
	case apierrors.IsUnauthorized(err):
		advice = ": the API server does not accept our credentials; renew the kubeconfig or the ServiceAccount's token"
	case apierrors.IsNotFound(err):
		advice = ": create its namespace, or choose another one with --leader-elect-lease-namespace"
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		advice = ": the API server cannot be reached; check that it runs, and the address in the kubeconfig"
	}
	l.complaint.say(l.logger, "Cannot read or write the Lease of the leader election"+advice+"; retrying", err, "lease", l.Describe())
	return err
}
