// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// link is the network between the process and the proxy. It has all connections.
type link struct {
	mu      sync.Mutex
	latency time.Duration
	open    chan struct{} // closed unless the link is frozen
	conns   map[*conn]struct{}
	senders sync.WaitGroup
}

func newLink() *link {
	l := &link{open: make(chan struct{}), conns: map[*conn]struct{}{}}
	close(l.open)
	return l
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default:
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

func (l *link) setLatency(latency time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latency = latency
}

func (l *link) state() (latency time.Duration, open <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latency, l.open
}

// abort breaks all connections, and returns when all senders have ended.
func (l *link) abort() {
	l.mu.Lock()
	for c := range l.conns {
		c.abort()
	}
	l.mu.Unlock()
	l.senders.Wait()
}

// listener accepts connections over the link.
type listener struct {
	net.Listener
	link *link
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{
		Conn:    accepted,
		link:    l.link,
		sending: make(chan packet, maxPackets),
		closing: make(chan struct{}),
		aborted: make(chan struct{}),
	}
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	l.link.conns[c] = struct{}{}
	l.link.senders.Go(c.send)
	return c, nil
}

// maxPackets is the limit of packets in flight on one connection. TLS makes packets of at most 16 KiB.
const maxPackets = 1024

// packet is data that arrives not before due.
type packet struct {
	data []byte
	due  time.Time
}

// conn is the proxy's end of a connection.
type conn struct {
	net.Conn
	link    *link
	sending chan packet

	closeOnce, abortOnce sync.Once
	closing              chan struct{} // closed by Close: no more data is accepted
	aborted              chan struct{} // closed by abort: no more data is sent
}

// Read implements net.Conn. Data that arrives while the link is frozen is held back.
func (c *conn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	_, open := c.link.state()
	select {
	case <-open:
		return n, err
	case <-c.closing:
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn. The method send sends the data later.
func (c *conn) Write(data []byte) (int, error) {
	latency, _ := c.link.state()
	select {
	case <-c.closing:
		return 0, net.ErrClosed
	default:
	}
	select {
	case c.sending <- packet{data: bytes.Clone(data), due: time.Now().Add(latency)}:
		return len(data), nil
	case <-c.closing:
		return 0, net.ErrClosed
	case <-c.aborted:
		return 0, net.ErrClosed
	}
}

// Close implements net.Conn. Data that was written before is still sent.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		_ = c.Conn.SetReadDeadline(time.Now()) // ends a Read; fails only on a closed connection
	})
	return nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn. It does nothing, because Write does not wait for the other side.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// abort breaks the connection. Data in flight is lost.
func (c *conn) abort() {
	c.abortOnce.Do(func() {
		close(c.aborted)
		_ = c.Conn.Close()
	})
	_ = c.Close()
}

// send sends each packet when it is due, until the connection is closed or broken.
func (c *conn) send() {
	defer func() {
		c.abort()
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		delete(c.link.conns, c)
	}()
	for {
		select {
		case p := <-c.sending:
			if !c.deliver(p) {
				return
			}
			continue
		case <-c.aborted:
			return
		case <-c.closing:
		}
		select {
		case p := <-c.sending: // written before the close
			if !c.deliver(p) {
				return
			}
		default:
			return
		}
	}
}

// deliver sends the packet when it is due. It reports whether the packet was sent.
func (c *conn) deliver(p packet) bool {
	if wait := time.Until(p.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.aborted:
			return false
		}
	}
	_, open := c.link.state()
	select {
	case <-open:
	case <-c.aborted:
		return false
	}
	_, err := c.Conn.Write(p.data)
	return err == nil
}
