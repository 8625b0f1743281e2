// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/testing/fakeapi"
)

// Servers and clients see what is written here immediately, except kube-apiserver, which may still trust what the APIService had
// before, for as long as its distribution takes. The simulation in package certs has the delays of all others. A work queue wakes up
// every ten seconds, also in virtual time, so a year here is three days and a half.
func TestTrustForTenYears(t *testing.T) {
	type said struct {
		until  time.Time
		bundle []byte
	}
	inBubble(t, func(t *testing.T, a *apiServer) {
		const year = 365 * day / 100
		a.lifetimes.Authority, a.lifetimes.Serving = a.lifetimes.Authority/100, a.lifetimes.Serving/100
		a.must(a.lifetimes.Validate())
		var past []said
		authorities, served, checked := map[string]bool{}, map[string]bool{}, 0
		a.OnWrite(func(*fakeapi.Request) {
			now := a.bundle()
			if a.kept().Serving == nil || len(now) == 0 {
				return
			}
			if len(past) == 0 || string(past[len(past)-1].bundle) != string(now) {
				if len(past) > 0 {
					past[len(past)-1].until = time.Now()
				}
				past = append(past, said{bundle: now})
			}
			for _, p := range past {
				if p.until.IsZero() || time.Since(p.until) < certs.DefaultLifetimes.Distribution {
					checked++
					a.must(a.verify(p.bundle))
				}
			}
			state, err := certs.Decode(a.kept())
			a.must(err)
			for _, authority := range state.Authorities {
				authorities[fmt.Sprint(authority.Certificate.SerialNumber)] = true
			}
			served[fmt.Sprint(state.Serving.Certificate.SerialNumber)] = true
		})
		a.start("")
		for end := time.Now().Add(10 * year); time.Now().Before(end); {
			time.Sleep(year / 365)
			synctest.Wait()
			a.must(a.verify(a.bundle()))
		}
		requests, events := a.took()
		t.Logf("%d authorities, %d certificates, %d looks, %d writes, %d events", len(authorities), len(served), checked, len(writes(requests)), len(events))
		if len(authorities) < 14 || len(served) < 50 {
			t.Errorf("%d authorities and %d certificates in ten years: nothing was rotated", len(authorities), len(served))
		}
		if n := len(writes(requests)); n > 300 {
			t.Errorf("%d writes in ten years", n)
		}
		state, err := certs.Decode(a.kept())
		if err != nil || len(state.Authorities) > 3 {
			t.Errorf("in the end %d authorities are trusted (%v)", len(state.Authorities), err)
		}
	}, ours())
}
