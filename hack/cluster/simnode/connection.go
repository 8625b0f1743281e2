package simnode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
)

// watchedListener accepts connections that notice when their other end is gone. net/http stops to look for that when a handler takes
// over a connection, as that of exec does.
type watchedListener struct{ net.Listener }

func (l watchedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConnection{Conn: connection, gone: make(chan struct{})}, nil
}

type watchedConnection struct {
	net.Conn
	once sync.Once
	gone chan struct{}
}

// Read notices the end. net/http ends a Read by a deadline when it hands the connection over.
func (c *watchedConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.once.Do(func() { close(c.gone) })
	}
	return n, err
}

func (c *watchedConnection) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// withConnection returns a context that ends with the connection.
func withConnection(ctx context.Context, connection net.Conn) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	watched := connection.(*tls.Conn).NetConn().(*watchedConnection)
	go func() {
		defer cancel()
		select {
		case <-watched.gone:
		case <-ctx.Done():
		}
	}()
	return ctx
}
