// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package certs

import (
	"fmt"
	"time"
)

// Lifetimes are durations. All are required.
type Lifetimes struct {
	// Authority is how long a certificate authority is valid, Serving how long a serving certificate is. At two thirds of
	// it each is renewed.
	Authority, Serving time.Duration
	// Distribution is the time until a client trusts the bundle of an object in the API.
	Distribution time.Duration
	// Skew is how far any clock, ours or a client's, may be from the true time.
	Skew time.Duration
}

// DefaultLifetimes are generous where waiting costs nothing.
var DefaultLifetimes = Lifetimes{
	Authority:    365 * 24 * time.Hour,
	Serving:      90 * 24 * time.Hour,
	Distribution: 10 * time.Minute,
	Skew:         5 * time.Minute,
}

// Validate refuses lifetimes in which a rotation does not find its place.
func (l Lifetimes) Validate() error {
	switch {
	case l.Distribution <= 0 || l.Skew < 0:
		return fmt.Errorf("checking certificate lifetimes: distribution is %s and clock skew %s; the first must be positive, the second not negative", l.Distribution, l.Skew)
	case l.Serving < 6*l.wait():
		return fmt.Errorf("checking certificate lifetimes: a serving certificate lasts %s, which must be %s or longer: six times the distribution and twice the clock skew", l.Serving, 6*l.wait())
	case l.Authority < 3*l.Serving:
		return fmt.Errorf("checking certificate lifetimes: an authority lasts %s, which must be %s or longer: three serving certificates", l.Authority, 3*l.Serving)
	}
	return nil
}

// apart is how far two clocks may be from each other.
func (l Lifetimes) apart() time.Duration { return 2 * l.Skew }

// wait is the time from when one process saw that all objects carry an authority until any process may take it that all
// clients trust it.
func (l Lifetimes) wait() time.Duration { return l.Distribution + l.apart() }
