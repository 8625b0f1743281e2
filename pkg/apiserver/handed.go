// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import "net"

// handedListener is the listener of a server whose connections are accepted elsewhere. That of the generic server has the address, and no connections.
type handedListener struct {
	address     net.Addr
	connections chan net.Conn
	closed      chan struct{}
}

func newHandedListener(address net.Addr) *handedListener {
	return &handedListener{address, make(chan net.Conn), make(chan struct{})}
}

// hand a connection to the server. It is closed if the server no longer listens.
func (l *handedListener) hand(connection net.Conn) {
	select {
	case l.connections <- connection:
	case <-l.closed:
		_ = connection.Close()
	}
}

// Accept returns a connection, or an error when the listener is closed.
func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.connections:
		return connection, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close is called once, by the server that listens.
func (l *handedListener) Close() error {
	close(l.closed)
	return nil
}

// Addr is the address that the server is known by.
func (l *handedListener) Addr() net.Addr { return l.address }
