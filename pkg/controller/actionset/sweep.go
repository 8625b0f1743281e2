// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/phase"
)

// sweepGone removes what is left of ActionSets of this name, which are gone. What is refused is tried again after a while, as long as a cache shows something.
func (c *Controller) sweepGone(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	err := errors.Join(c.sweep(ctx, key, ""), c.sweepSnapshots(ctx, key))
	if err != nil && isRefusal(err) {
		klog.FromContext(ctx).Info("Failed to clean up after an ActionSet that is gone, trying again later", "retryAfter", maxCleanUpRetry, "err", err)
		return maxCleanUpRetry, nil
	}
	return 0, err
}

// sweepOthers removes what is left of other ActionSets of this name. If that fails, it is tried again later, and this ActionSet runs meanwhile.
func (s *syncer) sweepOthers(ctx context.Context, ours types.UID) {
	again := &s.memory.cleanUp.sweepAgain
	if time.Now().Before(*again) {
		return
	}
	*again = time.Time{}
	if err := errors.Join(s.sweep(ctx, s.key, ours), s.sweepSnapshots(ctx, s.key)); err != nil {
		klog.FromContext(ctx).Info("Failed to clean up after another ActionSet of this name, trying again later", "retryAfter", minCleanUpRetry, "err", err)
		*again = time.Now().Add(minCleanUpRetry)
	}
}

// sweep removes what is left of ActionSets of this name that are gone, other than the known one. It asks the API server whether they are gone, because the
// cache of ActionSets may be stale.
func (c *Controller) sweep(ctx context.Context, key cache.ObjectName, known types.UID) error {
	var strays []phase.ID
	for _, id := range c.functions.Found(key.Namespace, key.Name) {
		if id.UID != known {
			strays = append(strays, id)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	live, err := c.Client.CrV1alpha1().ActionSets(key.Namespace).Get(ctx, key.Name, getOptions)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading ActionSet %s: %w", key, err)
	}
	var errs []error
	for _, id := range strays {
		if err != nil || live.UID != id.UID {
			errs = append(errs, c.functions.Remove(ctx, id))
		}
	}
	return errors.Join(errs...)
}
