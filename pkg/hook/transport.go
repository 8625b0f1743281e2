// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"time"
)

// identity names the roots that are trusted and the certificate that is presented.
type identity [sha256.Size]byte

func (m material) identity() identity {
	hash := sha256.New()
	for _, part := range [][]byte{m.ca, m.cert, m.key} {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write(part)
	}
	return identity(hash.Sum(nil))
}

// writeBuffer is the size, with its headers, of a request that is sent by one system call and without another buffer.
const writeBuffer = 16 << 10

// transports has one transport per identity, so that hooks on one host share its connections.
type transports struct {
	idlePerHost int

	mu    sync.Mutex
	known map[identity]*transport
}

// transport is used by hooks that present the same identity, and by the calls that they have under way.
type transport struct {
	*http.Transport
	id    identity
	users int // guarded by transports.mu
}

// acquire returns the transport of the material. The caller has to release it.
func (t *transports) acquire(m material) (*transport, error) {
	id := m.identity()
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.known[id]; one != nil {
		one.users++
		return one, nil
	}
	config, err := m.tlsConfig()
	if err != nil {
		return nil, err
	}
	one := &transport{id: id, users: 1, Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   t.idlePerHost,
		WriteBufferSize:       writeBuffer,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2: &http.HTTP2Config{
			// A connection that has gone without a word would else be used for call after call.
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     5 * time.Second,
			// What is not read yet is not counted: with the default it might be 4 MiB for each answer.
			MaxReceiveBufferPerStream:     firstBody,
			MaxReceiveBufferPerConnection: t.idlePerHost * firstBody,
		},
		MaxResponseHeaderBytes: 64 << 10,
	}}
	t.known[id] = one
	return one, nil
}

// retain adds a user of a transport that has one.
func (t *transports) retain(one *transport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.users++
}

// release closes the connections with the last user.
func (t *transports) release(one *transport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(t.known, one.id)
		one.CloseIdleConnections()
	}
}
