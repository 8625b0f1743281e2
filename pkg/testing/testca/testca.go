// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testca issues certificates for tests.
package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// CA signs certificates.
type CA struct {
	Certificate *x509.Certificate
	// PEM is the certificate in PEM.
	PEM []byte
	key crypto.Signer
}

// New returns a new CA with that common name.
func New(t testing.TB, name string) *CA {
	t.Helper()
	key := newKey(t)
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{Certificate: certificate, PEM: encode(t, certificate), key: key}
}

// Load returns the CA in these files.
func Load(t testing.TB, certFile, keyFile string) *CA {
	t.Helper()
	certificates, err := cert.CertsFromFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{Certificate: certificates[0], PEM: encode(t, certificates[0]), key: key.(crypto.Signer)}
}

// Pool returns a pool with only this CA.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate)
	return pool
}

// KeyPair is a certificate with its key.
type KeyPair struct {
	// Cert and Key are in PEM.
	Cert, Key []byte
	TLS       tls.Certificate
}

// Issue returns a certificate for clients and for servers on loopback. An API server takes the name and the groups of a client from it.
// The certificate is valid for an hour.
func (c *CA) Issue(t testing.TB, name string, groups ...string) *KeyPair {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, c.Certificate, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	pair := &KeyPair{Cert: encode(t, certificate), Key: encodedKey}
	if pair.TLS, err = tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Fatal(err)
	}
	return pair
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(t testing.TB, certificate *x509.Certificate) []byte {
	t.Helper()
	encoded, err := cert.EncodeCertificates(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
