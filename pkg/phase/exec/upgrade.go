// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	//lint:ignore SA1019 client-go uses this package for upgrades.
	"k8s.io/apimachinery/pkg/util/httpstream"
	//lint:ignore SA1019 It makes connections of that package.
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
)

const (
	// protocol is what the connection of a command speaks after the upgrade.
	protocol = "SPDY/3.1"
	// pingPeriod is the interval of pings, without which a load balancer may close an idle connection. None is sent while the connection is not read.
	pingPeriod = 5 * time.Second
	// dialLimit and handshakeLimit are how long it may take to connect, and the TLS handshake after that.
	dialLimit, handshakeLimit = 30 * time.Second, 10 * time.Second
)

// upgrade opens the connection of one command. As http.RoundTripper it sends the request, and as spdy.Upgrader it makes the connection of it. That of
// client-go would read a connection although nothing reads its streams: up to 50 frames of each stream wait in memory, about 1.6 MiB.
type upgrade struct {
	transport *http.Transport
	paused    *pause
	// connection is open if the API server has switched protocols.
	connection io.ReadWriteCloser
}

func newUpgrade(config *rest.Config, paused *pause) (*upgrade, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		tlsConfig = tlsConfig.Clone()
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	dialer := &net.Dialer{Timeout: dialLimit}
	return &upgrade{paused: paused, transport: &http.Transport{
		Proxy: proxy, DialContext: dialer.DialContext, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: handshakeLimit, DisableKeepAlives: true,
	}}, nil
}

// RoundTrip implements http.RoundTripper.
func (u *upgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, protocol)
	connected := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
	resp, err := u.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && !connected {
		return nil, notStartedError{err} // also a TLS handshake that fails or takes too long
	}
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	connection, ok := resp.Body.(io.ReadWriteCloser)
	if switched := resp.Header.Get(httpstream.HeaderUpgrade); !ok || !strings.EqualFold(switched, protocol) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the server has switched to the protocol %q, want %s", switched, protocol)
	}
	u.connection = connection
	resp.Body = io.NopCloser(strings.NewReader("")) // closed by client-go before the connection is used
	return resp, nil
}

// NewConnection implements spdy.Upgrader.
func (u *upgrade) NewConnection(*http.Response) (httpstream.Connection, error) {
	if u.connection == nil {
		return nil, errors.New("the server has not switched protocols")
	}
	return spdy.NewClientConnectionWithPings(&pausedConn{ReadWriteCloser: u.connection, paused: u.paused}, pingPeriod)
}

// pause stops the reading of a connection while a writer of what was read is busy.
type pause struct {
	// busy has a token while a writer is busy, or a reader looks whether one is.
	busy   chan struct{}
	closed chan struct{}
	close  func()
}

func newPause() *pause {
	closed := make(chan struct{})
	return &pause{busy: make(chan struct{}, 1), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// writer returns a writer during whose writes the connection is not read.
func (p *pause) writer(w io.Writer) io.Writer { return pausingWriter{w, p} }

type pausingWriter struct {
	io.Writer
	paused *pause
}

func (w pausingWriter) Write(p []byte) (int, error) {
	w.paused.busy <- struct{}{}
	defer func() { <-w.paused.busy }()
	return w.Writer.Write(p)
}

// pausedConn is the connection of a command, which is not read while a writer is busy.
type pausedConn struct {
	io.ReadWriteCloser
	paused *pause
}

func (c *pausedConn) Read(p []byte) (int, error) {
	select {
	case c.paused.busy <- struct{}{}:
		<-c.paused.busy
		return c.ReadWriteCloser.Read(p)
	case <-c.paused.closed:
		return 0, net.ErrClosed
	}
}

func (c *pausedConn) Close() error {
	c.paused.close()
	return c.ReadWriteCloser.Close()
}

// What follows completes a net.Conn. The library does not use it.

// LocalAddr implements net.Conn.
func (c *pausedConn) LocalAddr() net.Addr { return nil }

// RemoteAddr implements net.Conn.
func (c *pausedConn) RemoteAddr() net.Addr { return nil }

// SetDeadline implements net.Conn.
func (c *pausedConn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements net.Conn.
func (c *pausedConn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements net.Conn.
func (c *pausedConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
