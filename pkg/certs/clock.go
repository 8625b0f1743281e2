// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"time"
)

// renewalTime is when two thirds of the life of a certificate are over.
func renewalTime(certificate *x509.Certificate) time.Time {
	return certificate.NotBefore.Add(certificate.NotAfter.Sub(certificate.NotBefore) / 3 * 2)
}

// validFor reports whether a certificate is valid now by every clock.
func validFor(o Observed, certificate *x509.Certificate) bool {
	return !o.Now.Before(certificate.NotBefore) && o.Now.Add(o.Lifetimes.apart()).Before(certificate.NotAfter)
}

// extends reports whether a certificate that is issued now lasts longer than the present one: none outlives its authority.
func extends(o Observed, issuer *Authority) bool {
	return o.State.Serving.Certificate.NotAfter.Before(issuer.Certificate.NotAfter)
}

// recorded reports whether it is known since when all targets carry an authority. A time that no clock can have shown yet
// does not count, else a clock that was far ahead would stop the rotation.
func recorded(o Observed, a *Authority) bool {
	return !a.Distributed.IsZero() && !a.Distributed.After(o.Now.Add(o.Lifetimes.apart()))
}

// trusted reports whether every client trusts an authority: the targets have carried it for long enough, and still do.
func trusted(o Observed, a *Authority) bool {
	return recorded(o, a) && !o.Now.Before(a.Distributed.Add(o.Lifetimes.wait())) && carriedByAll(o, a)
}

// dropTime is when nothing that an authority signed is valid by any clock. A server may serve what it has until then.
func dropTime(o Observed, a *Authority) time.Time {
	if a.SignedUntil.IsZero() {
		return time.Time{}
	}
	return a.SignedUntil.Add(o.Lifetimes.apart())
}
