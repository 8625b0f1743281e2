// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Connections are the maximum numbers of connections at a time.
type Connections struct {
	// OfAddress is for the clients of one address. An IPv6 address is compared as a whole here: all Pods of a node may share a /64.
	OfAddress int
	// Total is for all clients.
	Total int
}

// Listener limits how many connections clients have at a time. For each connection beyond a limit it closes an older one: then a client that shares its
// address with an attacker, for example behind a gateway, still connects.
//
// Beyond the limit of an address it closes the oldest of the address, and beyond that of all clients the oldest of the network that has the most: an
// IPv4 address, or an IPv6 /64.
type Listener struct {
	net.Listener
	limits Connections
	closed func(net.Addr)

	mu    sync.Mutex
	open  map[netip.Prefix][]*counted // by network, the oldest first
	total int
}

// NewListener returns a limit on the connections of a listener. closed is called for each connection that is closed for a newer one.
func NewListener(listener net.Listener, limits Connections, closed func(net.Addr)) *Listener {
	return &Listener{Listener: listener, limits: limits, closed: closed, open: map[netip.Prefix][]*counted{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	address := connection.RemoteAddr().String()
	accepted := &counted{Conn: connection, by: l, address: Whole(address), network: Of(address)}
	if older := l.add(accepted); older != nil {
		l.closed(older.RemoteAddr())
		_ = older.Close()
	}
	return accepted, nil
}

// add counts a connection, and returns the one that is to be closed for it.
func (l *Listener) add(accepted *counted) *counted {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.open[accepted.network] = append(l.open[accepted.network], accepted)
	if oldest, count := l.oldestOf(accepted); count > l.limits.OfAddress {
		return oldest
	}
	if l.total <= l.limits.Total {
		return nil
	}
	var most []*counted
	for _, open := range l.open {
		if len(open) > len(most) {
			most = open
		}
	}
	return most[0]
}

// oldestOf returns the oldest connection of an address, and how many the address has.
func (l *Listener) oldestOf(accepted *counted) (oldest *counted, count int) {
	for _, other := range l.open[accepted.network] {
		if other.address != accepted.address {
			continue
		}
		if count++; oldest == nil {
			oldest = other
		}
	}
	return oldest, count
}

func (l *Listener) remove(connection *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.open[connection.network]
	i := slices.Index(open, connection)
	if i < 0 {
		return
	}
	l.total--
	if len(open) == 1 {
		delete(l.open, connection.network)
		return
	}
	l.open[connection.network] = slices.Delete(open, i, i+1)
}

// counted is a connection that counts until it is closed or exempt.
type counted struct {
	net.Conn
	by      *Listener
	address netip.Addr
	network netip.Prefix
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
