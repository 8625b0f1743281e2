// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"millwright.dev/pkg/testing/testcluster"
)

// signer is a certificate authority that signs certificates of clients.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// signerOf returns an authority of the cluster: "ca" or "front-proxy-ca".
func signerOf(t *testing.T, cluster *testcluster.Cluster, name string) *signer {
	t.Helper()
	folder := filepath.Join(filepath.Dir(cluster.Kubeconfig()), "pki")
	certificates, err := certutil.CertsFromFile(filepath.Join(folder, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(folder, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return &signer{certificate: certificates[0], key: key.(crypto.Signer)}
}

// newSigner returns an authority that the cluster does not trust.
func newSigner(t *testing.T, name string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{certificate: certificate, key: key}
}

// client returns a configuration with a client certificate for this name and these groups.
func (s *signer) client(t *testing.T, name string, groups ...string) rest.TLSClientConfig {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.certificate, key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := certutil.EncodeCertificates(certificate)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return rest.TLSClientConfig{CertData: encoded, KeyData: encodedKey}
}
