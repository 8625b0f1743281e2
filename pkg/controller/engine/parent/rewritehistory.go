// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"time"

	"millwright.dev/pkg/controller"
)

// rewriteHistory is what one process has learned of a part of a parent that it writes: of its status, or of its labels and annotations. Others
// may write it, too.
type rewriteHistory struct {
	// written is a hash of what our last write was, 0 before the first, and pending one of what the next write is, 0 if only its result shows that.
	written, pending uint64
	// repairs reports whether another client has changed it since.
	repairs bool
	// rewrites are the repairs.
	rewrites controller.RewriteBackoff
	reported bool
}

// isDue reports whether the part is to be written now. A repair has to wait if there were many before.
func (p *plan) isDue(known *rewriteHistory, o observed) bool {
	if !known.repairs {
		return true
	}
	wait := known.rewrites.Wait(o.now)
	if wait > 0 {
		p.delayed = true
		p.requeue(wait)
	}
	return wait == 0
}

// isNews reports whether the part is found to be changed back each time, and that was not reported before.
func (h *rewriteHistory) isNews(now time.Time) bool {
	if !h.repairs {
		return false
	}
	slowed := h.rewrites.Slowed(now)
	news := slowed && !h.reported
	h.reported = slowed
	return news
}

// recordDone records that the part was written.
func (h *rewriteHistory) recordDone(now time.Time) {
	if h.repairs {
		h.rewrites = h.rewrites.Add(now)
	}
}
