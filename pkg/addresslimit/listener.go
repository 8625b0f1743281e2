// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Listener limits how many connections the clients of an address have at a time. For each connection beyond the limit it closes the oldest: then a
// client that shares its address with an attacker, for example behind a gateway, still connects.
type Listener struct {
	net.Listener
	limit  int
	closed func(net.Addr)

	mu   sync.Mutex
	open map[netip.Prefix][]*counted // the oldest first
}

// NewListener returns a limit on the connections of a listener. closed is called for each connection that is closed for a newer one.
func NewListener(listener net.Listener, limit int, closed func(net.Addr)) *Listener {
	return &Listener{Listener: listener, limit: limit, closed: closed, open: map[netip.Prefix][]*counted{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := &counted{Conn: connection, by: l, address: Of(connection.RemoteAddr().String())}
	if oldest := l.add(accepted); oldest != nil {
		l.closed(oldest.RemoteAddr())
		_ = oldest.Close()
	}
	return accepted, nil
}

// add counts a connection, and returns the one that is to be closed for it.
func (l *Listener) add(accepted *counted) *counted {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := append(l.open[accepted.address], accepted)
	l.open[accepted.address] = open
	if len(open) > l.limit {
		return open[0]
	}
	return nil
}

func (l *Listener) remove(connection *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := slices.DeleteFunc(l.open[connection.address], func(other *counted) bool { return other == connection })
	if len(open) == 0 {
		delete(l.open, connection.address)
		return
	}
	l.open[connection.address] = open
}

// counted is a connection that counts until it is closed or exempt.
type counted struct {
	net.Conn
	by      *Listener
	address netip.Prefix
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.by.remove(c)
	return c.Conn.Close()
}

// Exempt ends the count of a connection that a Listener has accepted, because the server knows its client now.
func Exempt(connection net.Conn) {
	if of, ok := connection.(*counted); ok {
		of.by.remove(of)
	}
}
