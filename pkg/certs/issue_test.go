// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCertificateWithinAuthorityLifetime(t *testing.T) {
	f := settled(t)
	for f.Now.Before(epoch.Add(3 * 365 * day)) {
		serving, authority := f.State.Serving.Certificate, f.State.issuer().Certificate
		if serving.NotAfter.After(authority.NotAfter) || serving.NotBefore.Before(authority.NotBefore) {
			t.Fatalf("certificate %s to %s, authority %s to %s", serving.NotBefore, serving.NotAfter, authority.NotBefore, authority.NotAfter)
		}
		f.pass(max(Decide(f.Observed).RequeueAfter, time.Second)).settle()
	}
}

func TestKeyUsages(t *testing.T) {
	f := settled(t)
	serving, authority := f.State.Serving.Certificate, f.State.Authorities[0].Certificate
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, serving.ExtKeyUsage); diff != "" || serving.IsCA {
		t.Errorf("the serving certificate can do more, or less, than serve: %s", diff)
	}
	if !authority.IsCA || !authority.MaxPathLenZero || authority.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Error("the authority cannot sign, or can make other authorities")
	}
	for _, name := range names {
		if err := serving.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if !names.match(serving) || names[:1].match(serving) || append(Names{"more"}, names...).match(serving) {
		t.Error("a certificate matches names that it is not for, or not those that it is for")
	}
}

func TestSerialNumbersComeFromTheGivenSource(t *testing.T) {
	plan := Decide(newFixture(t).Observed)
	issuing := Issuing{names, DefaultLifetimes, epoch, bytes.NewReader(append(bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{0}, 16)...))}
	state, err := Advance(State{}, plan, issuing)
	if err != nil {
		t.Fatal(err)
	}
	if got := state.Authorities[0].Certificate.SerialNumber.Text(16); got != "7f"+strings.Repeat("ff", 15) {
		t.Errorf("serial number of the authority is %s", got)
	}
	if got := state.Serving.Certificate.SerialNumber.Text(16); got != "40"+strings.Repeat("00", 15) {
		t.Errorf("serial number of the certificate is %s: it must be positive, whatever the source gives", got)
	}
}

func TestAFailureHalfWayLeavesTheStateAsItWas(t *testing.T) {
	f := recordedRotation(t).pass(DefaultLifetimes.wait())
	before, bundle := f.State.Serving, f.State.Bundle()
	broken := errors.New("no randomness")
	for name, random := range map[string]io.Reader{"fails": iotest.ErrReader(broken), "ends": strings.NewReader("short")} {
		state, err := Advance(f.State, Decide(f.Observed), Issuing{names, DefaultLifetimes, f.Now, random})
		if err == nil || !strings.Contains(err.Error(), "issue a serving certificate") || state.Serving != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if f.State.Serving != before || !bytes.Equal(f.State.Bundle(), bundle) || !f.State.Authorities[0].Key.exists() {
		t.Error("the state was changed")
	}
}

func TestLifetimesInWhichNoRotationFitsAreRefused(t *testing.T) {
	if err := DefaultLifetimes.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Lifetimes){
		"no distribution":      func(l *Lifetimes) { l.Distribution = 0 },
		"negative skew":        func(l *Lifetimes) { l.Skew = -1 },
		"certificates of 1 h":  func(l *Lifetimes) { l.Serving = time.Hour },
		"authority of 100 d":   func(l *Lifetimes) { l.Authority = 100 * day },
		"skew of half a month": func(l *Lifetimes) { l.Skew = 15 * day },
	} {
		lifetimes := DefaultLifetimes
		change(&lifetimes)
		if lifetimes.Validate() == nil {
			t.Errorf("%s: %+v is accepted", name, lifetimes)
		}
	}
}
