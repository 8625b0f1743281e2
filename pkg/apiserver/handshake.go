// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"fmt"
	"net"
)

const (
	// maxHandshake is how much a client may send before the TLS handshake has ended, in bytes. TLS takes a chain of certificates of 256 KiB, which has a
	// hundred times its size when it is parsed.
	maxHandshake = 32 << 10
	// maxChain and maxNames are the maximum numbers of certificates of a client, and of names in all of them. The server keeps them as long as the
	// connection, and verifies them for each request.
	maxChain = 4
	maxNames = 100
)

// handshakeConn is a connection whose client may not send much before the handshake has ended.
type handshakeConn struct {
	net.Conn
	left  int
	ended bool
}

// Read implements net.Conn.
func (c *handshakeConn) Read(content []byte) (int, error) {
	if c.ended {
		return c.Conn.Read(content)
	}
	if c.left == 0 {
		return 0, fmt.Errorf("the client sends more than %d bytes before the TLS handshake has ended", maxHandshake)
	}
	n, err := c.Conn.Read(content[:min(len(content), c.left)])
	c.left -= n
	return n, err
}

// limitCertificates refuses a client whose certificates would take much memory or time. It is the VerifyConnection of a tls.Config.
func limitCertificates(state tls.ConnectionState) error {
	names := 0
	for _, certificate := range state.PeerCertificates {
		names += len(certificate.DNSNames) + len(certificate.EmailAddresses) + len(certificate.IPAddresses) + len(certificate.URIs)
	}
	if len(state.PeerCertificates) > maxChain || names > maxNames {
		return fmt.Errorf("the client has %d certificates with %d names, and may have %d with %d", len(state.PeerCertificates), names, maxChain, maxNames)
	}
	return nil
}
