// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

// Issuing has the input of Advance apart from the state and the plan.
type Issuing struct {
	Names     Names
	Lifetimes Lifetimes
	Now       time.Time
	// Random is where serial numbers come from: crypto/rand.Reader. Keys always come from there.
	Random io.Reader
}

// Advance returns the state after the steps of a plan. The state that it is given stays as it is, so that a failure
// half-way changes nothing.
func Advance(state State, plan Plan, issuing Issuing) (State, error) {
	state = state.clone()
	var created Fingerprint
	for _, step := range plan.Steps {
		var err error
		switch s := step.(type) {
		case CreateAuthority:
			created, err = state.addAuthority(issuing)
		case IssueServing:
			id := s.Authority
			if id == "" {
				id = created
			}
			err = state.issue(id, issuing)
		case RecordDistribution:
			err = state.edit(s.Authority, func(a *Authority) { a.Distributed = issuing.Now })
		case ForgetKey:
			err = state.edit(s.Authority, func(a *Authority) { a.Key = Key{} })
		case DropAuthority:
			state.Authorities = slices.DeleteFunc(state.Authorities, func(a Authority) bool { return a.id() == s.Authority })
		}
		if err != nil {
			return State{}, fmt.Errorf("rotating certificates: %s: %w", step, err)
		}
	}
	state.Authorities = sortAuthorities(state.Authorities)
	return state, nil
}

// edit changes one authority.
func (s State) edit(id Fingerprint, change func(*Authority)) error {
	authority := s.find(id)
	if authority == nil {
		return fmt.Errorf("there is no authority %.8s", id)
	}
	change(authority)
	return nil
}

func (s *State) addAuthority(issuing Issuing) (Fingerprint, error) {
	certificate, key, err := makeCertificate(issuing, func(template *x509.Certificate) {
		// Each has a name of its own: a client that knows two of one name may look at the wrong one only.
		template.Subject = pkix.Name{CommonName: fmt.Sprintf("millwright-ca-%x", template.SerialNumber)}
		template.NotAfter = issuing.Now.Add(issuing.Lifetimes.Authority)
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
		template.IsCA, template.MaxPathLenZero = true, true
	}, nil)
	if err != nil {
		return "", err
	}
	s.Authorities = append(s.Authorities, Authority{Certificate: certificate, Key: key})
	return fingerprint(certificate), nil
}

func (s *State) issue(by Fingerprint, issuing Issuing) error {
	authority := s.find(by)
	if authority == nil || !authority.Key.exists() {
		return fmt.Errorf("authority %.8s is not there, or has no key", by)
	}
	certificate, key, err := makeCertificate(issuing, func(template *x509.Certificate) {
		asServing(template, issuing)
		if template.NotAfter.After(authority.Certificate.NotAfter) {
			template.NotAfter = authority.Certificate.NotAfter
		}
	}, authority)
	if err != nil {
		return err
	}
	s.Serving, s.Problems = &Serving{certificate, key}, nil
	if certificate.NotAfter.After(authority.SignedUntil) {
		authority.SignedUntil = certificate.NotAfter
	}
	return nil
}

func asServing(template *x509.Certificate, issuing Issuing) {
	template.Subject = pkix.Name{CommonName: "millwright-serving"}
	template.DNSNames, template.IPAddresses = issuing.Names.split()
	template.NotAfter = issuing.Now.Add(issuing.Lifetimes.Serving)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

// makeCertificate makes a key and its certificate, signed by an authority, or by itself if there is none.
func makeCertificate(issuing Issuing, shape func(*x509.Certificate), by *Authority) (*x509.Certificate, Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Key{}, fmt.Errorf("making a key: %w", err)
	}
	// RFC 5280, 4.1.2.2: positive, at most 20 octets. 127 bits of it are random.
	random := make([]byte, 16)
	if _, err := io.ReadFull(issuing.Random, random); err != nil {
		return nil, Key{}, fmt.Errorf("making a serial number: %w", err)
	}
	random[0] = random[0]&0x7f | 0x40
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(random),
		NotBefore:             issuing.Now.Add(-issuing.Lifetimes.apart()), // for clients whose clock is behind ours
		BasicConstraintsValid: true,
	}
	shape(template)
	parent, signer := template, private
	if by != nil {
		parent, signer = by.Certificate, by.Key.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		return nil, Key{}, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, Key{}, fmt.Errorf("reading the certificate that was just made: %w", err)
	}
	return certificate, Key{private}, nil
}

// selfSignedLifetime is longer than any process lives: nothing renews it.
const selfSignedLifetime = 10 * 365 * 24 * time.Hour

// SelfSigned makes a certificate for one process, which clients can only take without verifying it. It returns PEM.
func SelfSigned(names Names, now time.Time, random io.Reader) (certificate, key []byte, err error) {
	lifetimes := DefaultLifetimes
	lifetimes.Serving = selfSignedLifetime
	issuing := Issuing{Names: names, Lifetimes: lifetimes, Now: now, Random: random}
	made, private, err := makeCertificate(issuing, func(template *x509.Certificate) { asServing(template, issuing) }, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	key, err = encodeKey(private)
	return encodeCertificate(made), key, err
}
