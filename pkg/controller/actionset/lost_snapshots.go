// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// lostSnapshots are those that may be left of ActionSets that are gone, because a user has removed the finalizer. The zero value is ready for use.
type lostSnapshots struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]map[string]types.UID // of the Secret, by its name
}

// add adds the snapshot of an ActionSet that is gone before its run has ended.
func (l *lostSnapshots) add(set *v1alpha1.ActionSet) {
	if !hasStarted(set.Status) || hasFinished(set.Status) || set.Status.Snapshot == nil {
		return
	}
	l.put(cache.MetaObjectToName(set), snapshotName(set), set.Status.Snapshot.UID)
}

// take returns the snapshots of ActionSets of this name, and forgets them.
func (l *lostSnapshots) take(key cache.ObjectName) map[string]types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.byKey[key]
	delete(l.byKey, key)
	return taken
}

// put adds the Secret with this name and UID.
func (l *lostSnapshots) put(key cache.ObjectName, name string, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[cache.ObjectName]map[string]types.UID{}
	}
	if l.byKey[key] == nil {
		l.byKey[key] = map[string]types.UID{}
	}
	l.byKey[key][name] = uid
}

// forget drops what is known of an ActionSet that is gone. If its snapshot is still known, it was not cleaned up.
func (c *Controller) forget(key cache.ObjectName) {
	var left types.UID
	c.memories.UpdateKnown(key, func(m *memory) {
		if m.snapshot != nil && m.snapshot.needsFinalizer() {
			left = m.snapshotID.UID
		}
	})
	if uid := c.memories.Forget(key); left != "" {
		c.lostSnapshots.put(key, snapshotNameOf(uid), left)
	}
}

// sweepSnapshots deletes the lost snapshots of ActionSets of this name.
func (c *Controller) sweepSnapshots(ctx context.Context, key cache.ObjectName) error {
	var errs []error
	for name, uid := range c.lostSnapshots.take(key) {
		err := c.KubeClient.CoreV1().Secrets(key.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			if gone, readErr := phase.IsNamespaceGone(ctx, c.KubeClient, key.Namespace); isRefusal(err) && readErr == nil && gone {
				continue // with it the Secret goes
			}
			c.lostSnapshots.put(key, name, uid)
			errs = append(errs, fmt.Errorf("deleting Secret %s/%s with the snapshot of an ActionSet that is gone: %w", key.Namespace, name, err))
		}
	}
	return errors.Join(errs...)
}
