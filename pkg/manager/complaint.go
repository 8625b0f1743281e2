// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"k8s.io/klog/v2"
)

// complaintInterval is how often a problem that lasts is logged.
const complaintInterval = 30 * time.Second

// complaint logs a problem immediately, and then again every complaintInterval while it lasts. It is not safe for concurrent use.
type complaint struct {
	about  string
	since  time.Time
	logged time.Time
}

// say logs the message. err may be nil.
func (c *complaint) say(logger klog.Logger, message string, err error, keysAndValues ...any) {
	now := time.Now()
	if c.about == "" {
		c.since = now
	}
	if c.about == message && now.Sub(c.logged) < complaintInterval {
		return
	}
	c.about, c.logged = message, now
	if err != nil {
		keysAndValues = append(keysAndValues, "err", err)
	}
	logger.WithCallDepth(1).Error(nil, message, keysAndValues...)
}

// settle logs that the problem is over, if one was logged.
func (c *complaint) settle(logger klog.Logger, message string, keysAndValues ...any) {
	if c.about != "" {
		logger.WithCallDepth(1).Info(message, append(keysAndValues, "after", time.Since(c.since).Round(time.Millisecond))...)
	}
	*c = complaint{}
}
