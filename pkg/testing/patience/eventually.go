// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"context"
	"fmt"
	"time"
)

const (
	// most is the number of Limits after which Eventually gives up although its complaint still changes.
	most = 4
	// Eventually polls at intervals of a tenth of the time that it has waited, between these two: what takes long is not asked for often, because
	// each question takes CPU time from what is waited for.
	shortest = 20 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// Eventually calls check until it returns "", and returns "". It gives up, and returns the last complaint, when the complaint has been the same for
// Limit: what makes progress does not hang, however slow the machine is. It also gives up when the context is done.
func Eventually(ctx context.Context, check func() (complaint string)) string {
	begin := time.Now()
	last, since := "", begin
	for {
		complaint := check()
		if complaint == "" {
			return ""
		}
		now := time.Now()
		if complaint != last {
			last, since = complaint, now
		}
		waited := now.Sub(begin)
		if now.Sub(since) >= Limit || waited >= most*Limit {
			return fmt.Sprintf("still after %s, the same for %s: %s", waited.Round(time.Second), now.Sub(since).Round(time.Second), complaint)
		}
		select {
		case <-time.After(min(max(waited/10, shortest), longest)):
		case <-ctx.Done():
			return fmt.Sprintf("%v after %s: %s", context.Cause(ctx), waited.Round(time.Second), complaint)
		}
	}
}
