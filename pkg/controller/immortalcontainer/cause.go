// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// startCause is why a Pod is started.
type startCause string

const (
	causeFirst     startCause = "first"
	causeSucceeded startCause = "succeeded"
	causeFailed    startCause = "failed"
	causeDeleted   startCause = "deleted"
	causeReplaced  startCause = "replaced"
	causeResumed   startCause = "resumed"
	causeReserved  startCause = "reserved"
)

var causes = []startCause{causeFirst, causeSucceeded, causeFailed, causeDeleted, causeReplaced, causeResumed, causeReserved}

// causeOf returns the cause of the start of that number, from the status before it.
func causeOf(before *v1alpha1.ImmortalContainerStatus, number int64) startCause {
	switch {
	case number <= 1:
		return causeFirst
	case before.NextStartTime != nil && before.LastTermination != nil && !isContestPause(before):
		if ptr.Deref(before.LastTermination.ExitCode, 1) == 0 {
			return causeSucceeded
		}
		return causeFailed
	case isProgressing(before, v1alpha1.ReasonReplacing):
		return causeReplaced
	case isProgressing(before, v1alpha1.ReasonSuspended):
		return causeResumed
	case before.StartTimes == number && !isProgressing(before, v1alpha1.ReasonWaitingForTermination):
		return causeReserved
	default:
		return causeDeleted
	}
}
