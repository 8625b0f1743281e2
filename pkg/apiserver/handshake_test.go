// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"

	"millwright.dev/pkg/testing/testca"
)

// A client shows the certificate that it has, and no more: each has a hundred times its size when it is parsed.
func TestLargeClientCertificates(t *testing.T) {
	s := start(t)
	ca := testca.New(t, "clients")
	chain := ca.Issue(t, "client").TLS
	for range maxChain {
		chain.Certificate = append(chain.Certificate, ca.Issue(t, "other").TLS.Certificate[0])
	}
	for name, test := range map[string]struct {
		certificate tls.Certificate
		want        bool
	}{
		"a certificate":       {ca.Issue(t, "client").TLS, true},
		"a long chain":        {chain, false},
		"many names":          {selfSigned(t, &x509.Certificate{DNSNames: slices.Repeat([]string{"x"}, maxNames+1)}), false},
		"a large certificate": {selfSigned(t, &x509.Certificate{Subject: pkix.Name{CommonName: strings.Repeat("x", maxHandshake)}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			// Also if the server would not take it.
			show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &test.certificate, nil }
			connection, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: show})
			if err == nil {
				defer connection.Close()
				_, err = connection.Write([]byte("GET /livez HTTP/1.1\r\nHost: farm\r\n\r\n"))
			}
			if err == nil {
				_, err = connection.Read(make([]byte, 1))
			}
			if (err == nil) != test.want {
				t.Errorf("got %v, want success: %t", err, test.want)
			}
		})
	}
}

func selfSigned(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
}
