// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest that a hook may put a parent off, as long as any retry waits at most. A change of the parent is not kept
// waiting for it.
const MaxRetryAfter = time.Minute

// retryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, also with a fraction, or a date in one of the
// three forms of HTTP, or with another zone than GMT. It is zero if the header has no usable delay.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789.") == "" {
		seconds, err := strconv.ParseFloat(header, 64) // beyond the range it is infinite, with an error
		if err != nil && !math.IsInf(seconds, 1) {
			return 0
		}
		return seconds2duration(seconds, MaxRetryAfter)
	}
	date, err := http.ParseTime(header)
	for _, form := range []string{time.RFC1123, time.RFC1123Z} {
		if err != nil {
			date, err = time.Parse(form, header)
		}
	}
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), MaxRetryAfter)
}

// seconds2duration returns at least the seconds, and at most the limit.
func seconds2duration(seconds float64, limit time.Duration) time.Duration {
	switch {
	case !(seconds > 0):
		return 0
	case seconds >= limit.Seconds():
		return limit
	default:
		return time.Duration(math.Ceil(seconds * float64(time.Second)))
	}
}
