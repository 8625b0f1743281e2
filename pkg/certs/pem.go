// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// decodeCertificates returns all certificates, and whether there is nothing else.
func decodeCertificates(content []byte) (certificates []*x509.Certificate, clean bool) {
	clean = decodePEM(content, func(block *pem.Block) bool {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return false
		}
		certificates = append(certificates, certificate)
		return true
	})
	return certificates, clean
}

// decodeKeys returns all ECDSA keys on P-256, and whether there is nothing else.
func decodeKeys(content []byte) (keys []Key, clean bool) {
	clean = decodePEM(content, func(block *pem.Block) bool {
		private, err := x509.ParseECPrivateKey(block.Bytes)
		if block.Type != "EC PRIVATE KEY" || err != nil || private.Curve != elliptic.P256() {
			return false
		}
		keys = append(keys, Key{private})
		return true
	})
	return keys, clean
}

// decodePEM hands over each block, and reports whether all were accepted and nothing is left.
func decodePEM(content []byte, accept func(*pem.Block) bool) bool {
	clean := true
	for {
		var block *pem.Block
		rest := content
		if block, content = pem.Decode(rest); block == nil {
			return clean && len(rest) == 0
		}
		clean = accept(block) && clean
	}
}

func encodeKey(key Key) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key.private)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
