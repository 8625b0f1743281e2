// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"k8s.io/klog/v2"
)

// complaintInterval is how often a state that lasts is complained about.
const complaintInterval = 30 * time.Second

// complaint logs what is wrong immediately, and then every so often while it stays so: often enough for those who look, and
// seldom enough to leave room for the rest. It is not safe for concurrent use.
type complaint struct {
	about string
	since time.Time
	said  time.Time
}

// say the message. err may be nil.
func (c *complaint) say(logger klog.Logger, message string, err error, keysAndValues ...any) {
	now := time.Now()
	if c.about == "" {
		c.since = now
	}
	if c.about == message && now.Sub(c.said) < complaintInterval {
		return
	}
	c.about, c.said = message, now
	if err != nil {
		keysAndValues = append(keysAndValues, "err", err)
	}
	logger.WithCallDepth(1).Error(nil, message, keysAndValues...)
}

// settle says that what was complained about is over, if anything was.
func (c *complaint) settle(logger klog.Logger, message string, keysAndValues ...any) {
	if c.about != "" {
		logger.WithCallDepth(1).Info(message, append(keysAndValues, "after", time.Since(c.since).Round(time.Millisecond))...)
	}
	*c = complaint{}
}
