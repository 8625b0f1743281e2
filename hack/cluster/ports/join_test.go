package ports

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestJoinAcceptsFromAllPorts(t *testing.T) {
	var listeners []*net.TCPListener
	for range 2 {
		listener, err := Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, listener)
	}
	joined := Join(listeners[0], listeners[1])
	defer joined.Close()
	if joined.Addr().String() != listeners[0].Addr().String() {
		t.Errorf("its address is %s, want that of the first, %s", joined.Addr(), listeners[0].Addr())
	}
	for _, listener := range listeners {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := joined.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, isTCP := server.(*net.TCPConn); !isTCP {
			t.Errorf("a %T, on which TCP options cannot be set", server)
		}
		if got, want := server.RemoteAddr().String(), client.LocalAddr().String(); got != want {
			t.Errorf("accepted the connection of %s, want that of %s", got, want)
		}
		_ = server.Close()
	}
}

func TestCloseEndsAcceptAndAllListeners(t *testing.T) {
	first, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	joined := Join(first, second)
	// A connection that is not accepted is closed.
	waiting, err := net.Dial("tcp", second.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	time.AfterFunc(50*time.Millisecond, func() { _ = joined.Close() })
	for {
		connection, err := joined.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
	}
	if err := joined.Close(); err != nil { // it waits for the other call, which has ended Accept first
		t.Errorf("closing it once more: %v", err)
	}
	for _, listener := range []*net.TCPListener{first, second} {
		if connection, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			_ = connection.Close()
			t.Errorf("%s still takes connections", listener.Addr())
		}
	}
	if _, err := waiting.Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) {
		t.Error("the waiting connection is not closed")
	}
}
