// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 3, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, header string
		want         time.Duration
	}{
		{"missing", "", 0},
		{"seconds", "7", 7 * time.Second},
		{"seconds with space around", " 7 ", 7 * time.Second},
		{"a fraction of a second", "0.5", 500 * time.Millisecond},
		{"zero", "0", 0},
		{"negative", "-3", 0},
		{"words", "soon", 0},
		{"not a number after all", "1.2.3", 0},
		{"only a dot", ".", 0},
		{"no decimal number", "0x10", 0},
		{"longer than is waited", "86400", MaxRetryAfter},
		{"beyond all numbers", "99999999999999999999999999", MaxRetryAfter},
		{"a date in GMT", "Mon, 03 Aug 2026 10:00:30 GMT", 30 * time.Second},
		{"a date in UTC", "Mon, 03 Aug 2026 10:00:30 UTC", 30 * time.Second},
		{"a date with an offset", "Mon, 03 Aug 2026 12:00:30 +0200", 30 * time.Second},
		{"a date of RFC 850", "Monday, 03-Aug-26 10:00:30 GMT", 30 * time.Second},
		{"a date of asctime", "Mon Aug  3 10:00:30 2026", 30 * time.Second},
		{"a date in the past", "Mon, 03 Aug 2026 09:59:00 GMT", 0},
		{"a date in far future", "Mon, 03 Aug 2126 10:00:30 GMT", MaxRetryAfter},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := retryAfter(test.header, now); got != test.want {
				t.Errorf("retryAfter(%q) is %s, want %s", test.header, got, test.want)
			}
		})
	}
}

func FuzzRetryAfterIsAlwaysWithinItsBounds(f *testing.F) {
	for _, seed := range []string{"", "7", "1.5", "Mon, 03 Aug 2026 10:00:30 GMT", "Mon Aug  3 10:00:30 2026", "NaN", "Inf", "1e9"} {
		f.Add(seed)
	}
	now := time.Date(2026, 8, 3, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if got := retryAfter(header, now); got < 0 || got > MaxRetryAfter {
			t.Errorf("retryAfter(%q) is %s", header, got)
		}
	})
}
