// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// world is a cluster in virtual time: controllers that are restarted and whose clocks are off, targets that cannot always be
// written, clients that learn late what to trust, servers that learn late what to serve.
type world struct {
	random *mathrand.Rand
	now    time.Time
	events []event
	names  Names

	secrets  Secrets
	version  struct{ authority, serving int } // of each Secret
	targets  []Target
	versions []int
	blocked  []time.Time // until when a target cannot be written
	clients  []client
	servers  []*x509.Certificate
	verified map[string]error

	// what a broken controller does otherwise
	decide    func(Observed) Plan
	lifetimes Lifetimes

	authorities map[Fingerprint]bool
	served      map[Fingerprint]bool
}

type event struct {
	at time.Time
	do func() error
}

// client trusts what a target said a while ago, by a clock of its own.
type client struct {
	target int
	skew   time.Duration
	bundle []byte
}

func newWorld(seed uint64, broken func(*world)) *world {
	w := &world{
		random: mathrand.New(mathrand.NewPCG(seed, 1)), now: epoch, names: names,
		targets: make([]Target, 3), versions: make([]int, 3), blocked: make([]time.Time, 3), servers: make([]*x509.Certificate, 3),
		verified: map[string]error{}, decide: Decide, lifetimes: DefaultLifetimes,
		authorities: map[Fingerprint]bool{}, served: map[Fingerprint]bool{},
	}
	for i := range w.targets {
		w.targets[i] = Target{Name: fmt.Sprint("target-", i), entries: make([]entry, 1)}
		for _, skew := range []time.Duration{-DefaultLifetimes.Skew, DefaultLifetimes.Skew} {
			w.clients = append(w.clients, client{target: i, skew: skew})
		}
	}
	if broken != nil {
		broken(w)
	}
	return w
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

func (w *world) oneIn(n int) bool { return w.random.IntN(n) == 0 }

func (w *world) after(d time.Duration, do func() error) {
	w.events = append(w.events, event{w.now.Add(d), do})
}

// run lets years pass. A certificate is valid from one time to another, so what holds just after an event and just before
// the next holds at every instant between.
func (w *world) run(years int) error {
	end := w.now.Add(time.Duration(years) * 365 * day)
	w.after(0, w.sync)
	w.after(w.upTo(100*day), w.disturb)
	for w.now.Before(end) {
		slices.SortStableFunc(w.events, func(a, b event) int { return a.at.Compare(b.at) })
		next := w.events[0]
		w.events = w.events[1:]
		w.now = next.at.Add(-1)
		if err := w.check(); err != nil {
			return err
		}
		w.now = next.at
		if err := next.do(); err != nil {
			return err
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

// check lets every client verify what every server shows.
func (w *world) check() error {
	for i, leaf := range w.servers {
		for j, c := range w.clients {
			if leaf == nil || c.bundle == nil {
				continue
			}
			if err := w.verify(leaf, c.bundle, w.now.Add(c.skew)); err != nil {
				return fmt.Errorf("at %s client %d cannot verify what server %d shows: %w", w.now, j, i, err)
			}
		}
	}
	return nil
}

// verify remembers the expensive part, the signature.
func (w *world) verify(leaf *x509.Certificate, bundle []byte, at time.Time) error {
	key := string(fingerprint(leaf)) + string(bundle)
	if err, known := w.verified[key]; known && err == nil && !at.Before(leaf.NotBefore) && !at.After(leaf.NotAfter) {
		return nil // no authority ends before what it has signed, nor begins after it: see the test of issued certificates
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, DNSName: names[0]})
	w.verified[key] = err
	return err
}

// sync is one sync of the controller as doc.go has it, by any of several processes with different clocks.
func (w *world) sync() error {
	clock := w.now.Add(w.upTo(2*DefaultLifetimes.Skew) - DefaultLifetimes.Skew)
	targets, versions := slices.Clone(w.targets), slices.Clone(w.versions)
	version := w.version
	state, err := Decode(w.secrets)
	if err != nil {
		return err
	}
	plan := w.decide(Observed{State: state, Names: w.names, Targets: targets, Lifetimes: DefaultLifetimes, Now: clock})
	again := plan.RequeueAfter
	if w.oneIn(5) { // down for a while; not as long as a third of a certificate's life
		again += w.upTo(10 * day)
	}
	defer func() { w.after(again+w.upTo(time.Minute), w.sync) }()

	late := time.Duration(0)
	if w.oneIn(4) { // a process that hangs, and writes when others have gone on
		late = w.upTo(2 * day)
	}
	for i, target := range targets {
		if slices.Contains(plan.Inject, target.Name) {
			again = min(again, w.upTo(2*time.Hour))
			if w.oneIn(6) { // its API server is not there for a while
				w.blocked[i] = w.now.Add(w.upTo(2 * day))
			}
			if !w.now.Before(w.blocked[i]) {
				w.after(late, func() error { w.inject(i, versions[i], state.Bundle()); return nil })
			}
		}
	}
	if len(plan.Steps) == 0 {
		return nil
	}
	again = min(again, time.Second)
	if w.oneIn(4) { // dies before it writes
		return nil
	}
	state, err = Advance(state, plan, Issuing{w.names, w.lifetimes, clock, rand.Reader})
	if err != nil {
		return err
	}
	wanted, err := Store(w.secrets, authorityName, servingName, state)
	if err != nil || wanted == (Secrets{}) {
		return fmt.Errorf("nothing to write after %v: %w", plan.Steps, err)
	}
	between := time.Duration(0)
	if w.oneIn(4) { // hangs between its two writes, or dies there
		between = w.upTo(2 * day)
	}
	dies := w.oneIn(4)
	w.after(late, func() error {
		if !w.storeAuthority(version.authority, wanted.Authority) || dies {
			return nil
		}
		w.after(between, func() error { w.storeServing(version.serving, wanted.Serving); return nil })
		return nil
	})
	return nil
}

// disturb changes the names, or loses a part of the Secret that may be lost.
func (w *world) disturb() error {
	switch w.random.IntN(3) {
	case 0:
		w.names = append(slices.Clone(names), fmt.Sprintf("extra-%d.example.com", w.random.IntN(100)))
	case 1:
		w.lose(DataRotation)
	case 2:
		w.lose(DataAuthorityKeys)
	}
	w.after(w.upTo(300*day), w.disturb)
	return nil
}

func (w *world) lose(key string) {
	if w.secrets.Authority == nil {
		return
	}
	secret := w.secrets.Authority.DeepCopy()
	secret.Data[key] = nil
	w.storeAuthority(w.version.authority, secret)
}

// inject writes a target unless it was written since it was read.
func (w *world) inject(target, version int, bundle []byte) {
	if w.versions[target] != version {
		return
	}
	w.versions[target]++
	w.targets[target].entries = []entry{{bundle: bundle}}
	for i := range w.clients {
		if c := &w.clients[i]; c.target == target {
			// Watches keep the order, so a client takes what the target says by the time it looks.
			w.after(w.upTo(DefaultLifetimes.Distribution), func() error {
				c.bundle = w.targets[target].entries[0].bundle
				return nil
			})
		}
	}
}

// storeAuthority writes the Secret, nil being one that stays, unless it was written since it was read. It returns false in that case.
func (w *world) storeAuthority(version int, secret *corev1.Secret) bool {
	if secret == nil {
		return true
	}
	if w.version.authority != version {
		return false
	}
	w.version.authority++
	w.secrets.Authority = secret
	return true
}

// storeServing likewise, of the Secret that servers read.
func (w *world) storeServing(version int, secret *corev1.Secret) {
	if secret == nil || w.version.serving != version {
		return
	}
	w.version.serving++
	w.secrets.Serving = secret
	for i := range w.servers {
		lag := w.upTo(3 * day)
		if w.oneIn(3) {
			lag = 0 // a watch, or a server that has just been started
		}
		w.after(lag, func() error { return w.takeUp(i) })
	}
}

func (w *world) takeUp(server int) error {
	state, err := Decode(w.secrets)
	if err != nil || state.Serving == nil {
		return fmt.Errorf("a server cannot read the Secret (%v): %w", state.Problems, err)
	}
	w.servers[server] = state.Serving.Certificate
	w.served[fingerprint(state.Serving.Certificate)] = true
	for _, authority := range state.Authorities {
		w.authorities[authority.id()] = true
	}
	if !bytes.Equal(state.Bundle(), w.secrets.Authority.Data[DataBundle]) {
		return fmt.Errorf("the bundle in the Secret is not what is read from it")
	}
	return nil
}

func TestTrustForTenYears(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(seed, nil)
		if err := w.run(10); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(w.authorities) < 14 || len(w.served) < 50 {
			t.Fatalf("seed %d: only %d authorities and %d certificates in ten years: nothing was tried", seed, len(w.authorities), len(w.served))
		}
		state, err := Decode(w.secrets)
		if err != nil || len(state.Authorities) > 4 {
			t.Errorf("seed %d: %d authorities are trusted in the end: old ones never go (%v)", seed, len(state.Authorities), err)
		}
		t.Logf("seed %d: %d authorities, %d certificates, %d verified pairs", seed, len(w.authorities), len(w.served), len(w.verified))
	}
}
