// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventually(t *testing.T) {
	never := 100 * Limit
	for _, test := range []struct {
		name     string
		reached  time.Duration // when check returns ""
		progress time.Duration // until when its complaint changes
		canceled time.Duration
		want     string
		wantAt   time.Duration
	}{
		{name: "as soon as it is reached", reached: time.Second, canceled: never, wantAt: time.Second},
		{name: "the same for the limit", reached: never, canceled: never, want: fmt.Sprintf("still after %[1]s, the same for %[1]s: 0", Limit), wantAt: Limit},
		{name: "progress", reached: 3 * Limit, progress: 2*Limit + time.Minute, canceled: never, wantAt: 3 * Limit},
		{name: "no more progress", reached: never, progress: Limit, canceled: never, want: fmt.Sprintf("the same for %s: %.0f", Limit, Limit.Seconds()), wantAt: 2 * Limit},
		{name: "progress without end", reached: never, progress: never, canceled: never, want: "still after " + (most * Limit).String(), wantAt: most * Limit},
		{name: "canceled", reached: never, canceled: time.Minute, want: "context deadline exceeded after 1m0s: 0", wantAt: time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.canceled)
				defer cancel()
				begin, calls := time.Now(), 0
				got := Eventually(ctx, func() string {
					calls++
					since := time.Since(begin)
					if since >= test.reached {
						return ""
					}
					return fmt.Sprint(int(min(since, test.progress).Seconds()))
				})
				if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
					t.Errorf("got %q, want %q", got, test.want)
				}
				took := time.Since(begin)
				if late := took - test.wantAt; late < 0 || late > longest+time.Second {
					t.Errorf("got the result after %s, want it after %s", took, test.wantAt)
				}
				if most := 60 + int(took/longest); calls > most {
					t.Errorf("got %d calls, want %d at most", calls, most)
				}
			})
		})
	}
}
