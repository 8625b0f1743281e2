package ports

import (
	"errors"
	"net"
	"sync"
)

// Join makes one listener of several: it accepts what any of them accepts. Its address is that of the first.
func Join(first *net.TCPListener, others ...*net.TCPListener) net.Listener {
	j := &joined{
		listeners: append([]*net.TCPListener{first}, others...),
		accepted:  make(chan accepted),
		closed:    make(chan struct{}),
	}
	for _, listener := range j.listeners {
		j.accepting.Go(func() { j.acceptFrom(listener) })
	}
	return j
}

type joined struct {
	listeners []*net.TCPListener
	accepted  chan accepted
	accepting sync.WaitGroup
	close     sync.Once
	closed    chan struct{}
	closeErr  error
}

type accepted struct {
	connection net.Conn
	err        error
}

func (j *joined) acceptFrom(listener *net.TCPListener) {
	for {
		connection, err := listener.AcceptTCP()
		select {
		case j.accepted <- accepted{connection, err}:
			if errors.Is(err, net.ErrClosed) {
				return
			}
		case <-j.closed:
			if err == nil {
				_ = connection.Close()
			}
			return
		}
	}
}

func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.accepted:
		if a.err != nil {
			return nil, a.err
		}
		return a.connection, nil
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all of them.
func (j *joined) Close() error {
	j.close.Do(func() {
		close(j.closed)
		var errs []error
		for _, listener := range j.listeners {
			errs = append(errs, listener.Close())
		}
		j.closeErr = errors.Join(errs...)
		j.accepting.Wait()
	})
	return j.closeErr
}

func (j *joined) Addr() net.Addr { return j.listeners[0].Addr() }
