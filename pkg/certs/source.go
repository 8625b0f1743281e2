// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Source holds the certificate that a server shows now. A change takes effect with the next handshake; connections that are
// open stay open. It serves tls.Config.GetCertificate, and servers of k8s.io/apiserver as a CertKeyContentProvider.
type Source struct {
	name string

	mu               sync.RWMutex
	certificate, key []byte
	parsed           *tls.Certificate
	listeners        []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = &Source{}

// NewSource returns a source without a certificate. The name appears in errors and logs.
func NewSource(name string) *Source { return &Source{name: name} }

// Name returns the name of the source.
func (s *Source) Name() string { return s.name }

// Update takes a certificate and its key, both as PEM, and reports whether they are new. On an error, which never quotes
// them, what was served before is served further.
func (s *Source) Update(certificate, key []byte) (changed bool, err error) {
	parsed, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return false, fmt.Errorf("taking up the certificate of %s: %w", s.name, err)
	}
	listeners, changed := s.store(certificate, key, &parsed)
	for _, listener := range listeners {
		listener.Enqueue()
	}
	return changed, nil
}

// store returns the listeners to notify, which is done without the lock.
func (s *Source) store(certificate, key []byte, parsed *tls.Certificate) (listeners []dynamiccertificates.Listener, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.certificate, certificate) && bytes.Equal(s.key, key) {
		return nil, false
	}
	s.certificate, s.key, s.parsed = slices.Clone(certificate), slices.Clone(key), parsed
	return slices.Clone(s.listeners), true
}

// CurrentCertKeyContent returns the certificate and its key as PEM, empty if there is none yet.
func (s *Source) CurrentCertKeyContent() (certificate, key []byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.certificate, s.key
}

// AddListener adds a listener for every change.
func (s *Source) AddListener(listener dynamiccertificates.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

// GetCertificate is for tls.Config.GetCertificate.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.parsed == nil {
		return nil, errors.New("there is no certificate yet for " + s.name)
	}
	return s.parsed, nil
}

// HealthCheck is a check for healthz: it fails without a certificate, and from `margin` before it expires. For readyz the
// margin should be short: a server that is not ready is not called at all, which is worse than an early warning.
func (s *Source) HealthCheck(margin time.Duration) *HealthCheck { return &HealthCheck{s, margin} }

// HealthCheck implements healthz.HealthChecker.
type HealthCheck struct {
	source *Source
	margin time.Duration
}

// Name is the path of the check below /readyz.
func (h *HealthCheck) Name() string { return "certificate-" + h.source.name }

// Check returns why the certificate will not do.
func (h *HealthCheck) Check(*http.Request) error {
	current, err := h.source.GetCertificate(nil)
	if err != nil {
		return err
	}
	switch leaf, now := current.Leaf, time.Now(); {
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate of %s is not valid before %s", h.source.name, leaf.NotBefore.Format(time.RFC3339))
	case !now.Before(leaf.NotAfter):
		return fmt.Errorf("the certificate of %s expired at %s", h.source.name, leaf.NotAfter.Format(time.RFC3339))
	case !now.Add(h.margin).Before(leaf.NotAfter):
		return fmt.Errorf("the certificate of %s expires at %s", h.source.name, leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}
