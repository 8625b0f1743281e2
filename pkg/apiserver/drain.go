// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net/http"
	"sync"
	"time"
)

// mover asks connections to move to another replica, half of the shutdown delay after the end was asked for.
//
// kube-apiserver keeps its connections, and a connection stays with a replica even when the Service leads to others only. If the
// replica just closes it, a request that is sent at that moment fails. So, when the nodes know that the replica ends, it asks
// the clients of all connections to send their next requests elsewhere, and answers those that are on their way.
//
// On HTTP/2 that is a GOAWAY frame with the highest stream there can be, as RFC 9113, 6.8 asks for. The server of Go sends one with
// the last stream that it has seen, and forgets what comes after it: a request with a body, which was sent before the client has
// read the frame, cannot be sent again, and fails.
type mover struct {
	mu sync.Mutex
	// due is closed when it is time.
	due         chan struct{}
	connections map[*movableConn]struct{}
	asked       sync.WaitGroup
}

func newMover() *mover {
	return &mover{due: make(chan struct{}), connections: map[*movableConn]struct{}{}}
}

// after the context has ended, or not at all if the server has ended before.
func (m *mover) after(ctx context.Context, delay time.Duration, ended <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(delay / 2):
		m.ask()
	case <-ended:
	}
}

// ask all connections to move, also those to come.
func (m *mover) ask() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.due)
	for connection := range m.connections {
		// A client that does not read delays only itself.
		m.asked.Go(connection.goAway)
	}
}

// take a connection of HTTP/2, until release.
func (m *mover) take(connection *tls.Conn) *movableConn {
	taken := &movableConn{Conn: connection}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections[taken] = struct{}{}
	select {
	case <-m.due:
		taken.asked = true
	default:
	}
	return taken
}

func (m *mover) release(connection *movableConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.connections, connection)
}

// handler asks clients of HTTP/1: they send nothing on a connection before they have the answer.
func (m *mover) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		select {
		case <-m.due:
			if request.ProtoMajor == 1 {
				response.Header().Set("Connection", "close")
			}
		default:
		}
		next.ServeHTTP(response, request)
	})
}

// goAwayFrame means: no error, and all streams up to the highest are answered. RFC 9113, 4.1 and 6.8.
var goAwayFrame = []byte{
	0, 0, 8, // length of the payload
	7,          // GOAWAY
	0,          // no flags
	0, 0, 0, 0, // the connection, not a stream
	0x7f, 0xff, 0xff, 0xff, // the last stream
	0, 0, 0, 0, // NO_ERROR
}

// movableConn is a connection of HTTP/2, seen from the server, which can be asked to move between two frames.
type movableConn struct {
	*tls.Conn

	mu     sync.Mutex
	frames frames
	asked  bool // but the frame is not sent yet
}

// Write implements net.Conn.
func (c *movableConn) Write(content []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	written, err := c.Conn.Write(content)
	c.frames.pass(content[:written])
	if err == nil {
		err = c.send()
	}
	return written, err
}

// goAway asks the client to move, immediately or after the frame that is being written.
func (c *movableConn) goAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	// An error of a broken connection is returned to its reader.
	_ = c.send()
}

func (c *movableConn) send() error {
	if !c.asked || !c.frames.isBetween() {
		return nil
	}
	c.asked = false
	_, err := c.Conn.Write(goAwayFrame)
	return err
}

const frameHeaderLength = 9

// frames follows a stream of frames. Its zero value is before the first, which nothing may precede.
type frames struct {
	header  [frameHeaderLength]byte
	filled  int // how much of the header has passed
	payload int // how much of the payload is still to pass
	begun   bool
}

// isBetween reports whether a frame has ended, and the next has not begun.
func (f *frames) isBetween() bool { return f.begun && f.filled == 0 && f.payload == 0 }

func (f *frames) pass(content []byte) {
	for len(content) > 0 {
		f.begun = true
		if f.payload > 0 {
			skipped := min(f.payload, len(content))
			f.payload, content = f.payload-skipped, content[skipped:]
			continue
		}
		copied := copy(f.header[f.filled:], content)
		f.filled, content = f.filled+copied, content[copied:]
		if f.filled == frameHeaderLength {
			f.payload = int(binary.BigEndian.Uint32(f.header[:]) >> 8) // the length has 24 bits
			f.filled = 0
		}
	}
}
