// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// road is what lies between the process and the proxy. All connections take it.
type road struct {
	mu      sync.Mutex
	latency time.Duration
	open    chan struct{} // closed unless the road is frozen
	conns   map[*conn]struct{}
	senders sync.WaitGroup
}

func newRoad() *road {
	r := &road{open: make(chan struct{}), conns: map[*conn]struct{}{}}
	close(r.open)
	return r
}

func (r *road) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
		r.open = make(chan struct{})
	default:
	}
}

func (r *road) thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

func (r *road) setLatency(latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latency = latency
}

func (r *road) state() (latency time.Duration, open <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latency, r.open
}

// abort breaks all connections, and returns when nothing is sent any more.
func (r *road) abort() {
	r.mu.Lock()
	for c := range r.conns {
		c.abort()
	}
	r.mu.Unlock()
	r.senders.Wait()
}

// listener hands out connections that take the road.
type listener struct {
	net.Listener
	road *road
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{
		Conn:    accepted,
		road:    l.road,
		sending: make(chan parcel, maxParcels),
		closing: make(chan struct{}),
		aborted: make(chan struct{}),
	}
	l.road.mu.Lock()
	defer l.road.mu.Unlock()
	l.road.conns[c] = struct{}{}
	l.road.senders.Go(c.send)
	return c, nil
}

// maxParcels bounds what is on its way on one connection. TLS makes parcels of at most 16 KiB.
const maxParcels = 1024

// parcel is some bytes that arrive no sooner than due.
type parcel struct {
	data []byte
	due  time.Time
}

// conn is the proxy's end of a connection.
type conn struct {
	net.Conn
	road    *road
	sending chan parcel

	closeOnce, abortOnce sync.Once
	closing              chan struct{} // closed when nothing more is to be sent
	aborted              chan struct{} // closed when nothing more can be sent
}

// Read implements net.Conn. What comes while the road is frozen is held back.
func (c *conn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	_, open := c.road.state()
	select {
	case <-open:
		return n, err
	case <-c.closing:
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn. The data are sent later, by send.
func (c *conn) Write(data []byte) (int, error) {
	latency, _ := c.road.state()
	select {
	case <-c.closing:
		return 0, net.ErrClosed
	default:
	}
	select {
	case c.sending <- parcel{data: bytes.Clone(data), due: time.Now().Add(latency)}:
		return len(data), nil
	case <-c.closing:
		return 0, net.ErrClosed
	case <-c.aborted:
		return 0, net.ErrClosed
	}
}

// Close implements net.Conn. What was written before is still sent.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		_ = c.Conn.SetReadDeadline(time.Now()) // wakes a Read; what fails here is closed anyway
	})
	return nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn. A Write does not wait for the other side.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// abort breaks the connection. What is on its way is lost.
func (c *conn) abort() {
	c.abortOnce.Do(func() {
		close(c.aborted)
		_ = c.Conn.Close()
	})
	_ = c.Close()
}

// send sends what is written, each parcel in its time, until the connection is closed or broken.
func (c *conn) send() {
	defer func() {
		c.abort()
		c.road.mu.Lock()
		defer c.road.mu.Unlock()
		delete(c.road.conns, c)
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

// deliver tells whether the parcel was sent.
func (c *conn) deliver(p parcel) bool {
	if wait := time.Until(p.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.aborted:
			return false
		}
	}
	_, open := c.road.state()
	select {
	case <-open:
	case <-c.aborted:
		return false
	}
	_, err := c.Conn.Write(p.data)
	return err == nil
}
