// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"io"
	"sync"
)

// gate lets the bytes of a watch pass, holds them back, or ends the watch.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while open
	ended  chan struct{} // closed when cut
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{}), ended: make(chan struct{})}
	close(g.opened)
	return g
}

// shut holds back all bytes from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}

// open lets bytes pass, those that were held back included.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// cut ends the watches of the gate.
func (g *gate) cut() { close(g.ended) }

func (g *gate) state() (opened, ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.ended
}

// guard returns a watch's stream that passes the gate.
func (g *gate) guard(body io.ReadCloser, alive context.Context) io.ReadCloser {
	guarded := &guardedBody{gate: g, body: body, alive: alive, closed: make(chan struct{})}
	go func() { // ends a Read that waits for the API server
		_, ended := g.state()
		select {
		case <-ended:
			_ = body.Close()
		case <-guarded.closed:
		}
	}()
	return guarded
}

type guardedBody struct {
	gate   *gate
	body   io.ReadCloser
	alive  context.Context
	once   sync.Once
	closed chan struct{}
}

// Read implements io.Reader. It returns data that was read while the gate was shut only after the gate opens.
func (b *guardedBody) Read(buffer []byte) (int, error) {
	n, err := b.body.Read(buffer)
	opened, ended := b.gate.state()
	select {
	case <-ended:
		return 0, io.EOF
	default:
	}
	select {
	case <-opened:
		return n, err
	case <-ended:
		return 0, io.EOF
	case <-b.alive.Done():
		return 0, errKilled
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
}

// Close implements io.Closer.
func (b *guardedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.body.Close()
}
