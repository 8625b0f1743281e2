// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package certs

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Fingerprint names a certificate: the SHA-256 of its DER form, in hexadecimal.
type Fingerprint string

func fingerprint(certificate *x509.Certificate) Fingerprint {
	sum := sha256.Sum256(certificate.Raw)
	return Fingerprint(hex.EncodeToString(sum[:]))
}

// Key is a private key that no format verb prints.
type Key struct{ private *ecdsa.PrivateKey }

// Format writes that a key is there, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) {
	text := "[no key]"
	if k.exists() {
		text = "[key]"
	}
	_, _ = io.WriteString(f, text)
}

// MarshalJSON shows no more than Format, also in structured logs.
func (k Key) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", fmt.Sprint(k)), nil }

func (k Key) exists() bool { return k.private != nil }

func (k Key) matches(certificate *x509.Certificate) bool {
	public, isECDSA := certificate.PublicKey.(*ecdsa.PublicKey)
	return k.exists() && isECDSA && public.Equal(k.private.Public())
}

// Authority is a certificate authority that clients should trust.
type Authority struct {
	Certificate *x509.Certificate
	// Key is there while the authority signs, or waits to.
	Key Key
	// Distributed is when all targets were first seen to carry it; zero if that is not known.
	Distributed time.Time
	// SignedUntil is when the last certificate that it signed expires; zero if it has signed none.
	SignedUntil time.Time
}

func (a *Authority) id() Fingerprint { return fingerprint(a.Certificate) }

// Serving is the certificate that servers show, and its key.
type Serving struct {
	Certificate *x509.Certificate
	Key         Key
}

// State is what the Secrets hold.
type State struct {
	// Authorities are all that clients should trust, in the order of the bundle.
	Authorities []Authority
	// Serving is nil if there is none that can be served.
	Serving *Serving
	// Problems are the parts of the Secrets that could not be used. They never quote them.
	Problems []string
}

// Bundle returns the certificates of all authorities as PEM, each once, oldest first: equal states have equal bundles.
func (s State) Bundle() []byte {
	var bundle []byte
	for _, authority := range sortAuthorities(s.Authorities) {
		bundle = append(bundle, encodeCertificate(authority.Certificate)...)
	}
	return bundle
}

// sortAuthorities returns them oldest first, each once.
func sortAuthorities(authorities []Authority) []Authority {
	sorted := slices.Clone(authorities)
	slices.SortStableFunc(sorted, func(a, b Authority) int {
		if order := a.Certificate.NotBefore.Compare(b.Certificate.NotBefore); order != 0 {
			return order
		}
		return strings.Compare(string(a.id()), string(b.id()))
	})
	return slices.CompactFunc(sorted, func(a, b Authority) bool { return a.Certificate.Equal(b.Certificate) })
}

// find returns an authority of the state, to be changed in place; nil if it has none of that name.
func (s State) find(id Fingerprint) *Authority {
	for i := range s.Authorities {
		if s.Authorities[i].id() == id {
			return &s.Authorities[i]
		}
	}
	return nil
}

// issuer returns the authority that signed the serving certificate; nil if it is none of ours.
func (s State) issuer() *Authority {
	if s.Serving == nil {
		return nil
	}
	for i := range s.Authorities {
		if s.Serving.Certificate.CheckSignatureFrom(s.Authorities[i].Certificate) == nil {
			return &s.Authorities[i]
		}
	}
	return nil
}

// clone returns a copy that can be changed without changing this one. Certificates and keys are never changed.
func (s State) clone() State {
	s.Authorities, s.Problems = slices.Clone(s.Authorities), slices.Clone(s.Problems)
	return s
}
