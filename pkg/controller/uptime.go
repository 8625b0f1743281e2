// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "time"

// begun is when the process began, with the reading of a clock that is never set.
var begun = time.Now()

// uptime returns a time in nanoseconds since the process began. For times of time.Now it does not depend on the wall clock, which may be set back.
func uptime(now time.Time) int64 { return int64(now.Sub(begun)) }
