// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

// fakeListener accepts connections of these addresses, and then fails.
type fakeListener struct {
	net.Listener
	addresses []string
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.addresses) == 0 {
		return nil, net.ErrClosed
	}
	address := l.addresses[0]
	l.addresses = l.addresses[1:]
	return &fakeConn{address: address}, nil
}

type fakeConn struct {
	net.Conn
	address string
	closed  bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return fakeAddr(c.address) }

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }

func TestListener(t *testing.T) {
	source := &fakeListener{}
	var closed []string
	l := NewListener(source, Connections{OfAddress: 2, Total: 100}, func(address net.Addr) { closed = append(closed, address.String()) })
	accept := func(address string) net.Conn {
		t.Helper()
		source.addresses = []string{address}
		connection, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return connection
	}
	expect := func(why string, want ...string) {
		t.Helper()
		if !slices.Equal(closed, want) {
			t.Errorf("%s: closed %q, want %q", why, closed, want)
		}
		closed = nil
	}
	first, other := accept("192.0.2.1:1"), accept("192.0.2.2:1")
	second := accept("192.0.2.1:2")
	expect("two connections of one address, and one of another")
	accept("192.0.2.1:3")
	expect("a third", "192.0.2.1:1")
	if !first.(*counted).Conn.(*fakeConn).closed || other.(*counted).Conn.(*fakeConn).closed {
		t.Error("want the oldest connection of the address closed, and not that of another address")
	}
	Exempt(second)
	accept("192.0.2.1:4")
	expect("one is exempt")
	_ = second.Close()
	accept("192.0.2.1:5")
	expect("an exempt connection that is closed makes no room", "192.0.2.1:3")
	Exempt(first.(*counted).Conn) // not of a Listener

	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error of the listener: got %v, want %v", err, net.ErrClosed)
	}
}

// A Listener remembers no network that has no connection.
func TestListenerForgets(t *testing.T) {
	source := &fakeListener{addresses: strings.Fields(strings.Repeat("192.0.2.1:1 192.0.2.2:1 ", 10))}
	l := NewListener(source, Connections{OfAddress: 2, Total: 100}, func(net.Addr) {})
	for {
		connection, err := l.Accept()
		if err != nil {
			break
		}
		_ = connection.Close()
		_ = connection.Close()
	}
	if len(l.open) > 0 || l.total != 0 {
		t.Errorf("got %d networks and %d connections, want none", len(l.open), l.total)
	}
}

// Beyond the limit of all clients, the network with the most connections gives up its oldest: an attacker who has many addresses of it.
func TestListenerTotal(t *testing.T) {
	source := &fakeListener{addresses: strings.Fields("192.0.2.1:1 [2001:db8::1]:1 [2001:db8::2]:1 [2001:db8::3]:1 192.0.2.2:1 [2001:db8::4]:1")}
	var closed []string
	l := NewListener(source, Connections{OfAddress: 1, Total: 4}, func(address net.Addr) { closed = append(closed, address.String()) })
	for accepted := 1; ; accepted++ {
		if _, err := l.Accept(); err != nil {
			break
		}
		if accepted == 4 && len(closed) > 0 {
			t.Errorf("closed %q within the limits", closed)
		}
	}
	if want := []string{"[2001:db8::1]:1", "[2001:db8::2]:1"}; !slices.Equal(closed, want) {
		t.Errorf("closed %q, want %q", closed, want)
	}
	if l.total != 4 {
		t.Errorf("got %d connections, want 4", l.total)
	}
}
